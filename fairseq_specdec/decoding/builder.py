"""From flags to a generator, or to an error that names the flag."""

import difflib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from fairseq.models.multilingual_transformer import MultilingualTransformerModel
from fairseq.models.speech_to_text import S2TTransformerModel
from fairseq.models.transformer import TransformerModelBase

from fairseq_specdec.acceptance import AcceptanceRule, Sampler
from fairseq_specdec.checkpoints.content import check_file
from fairseq_specdec.drafting import Drafter
from fairseq_specdec.drafting.vocabulary import vocabulary_for
from fairseq_specdec.engine.backend import anew, quickest_format, set_threads
from fairseq_specdec.engine.devices import check_device
from fairseq_specdec.engine.memory import only_decodes
from fairseq_specdec.engine.support import check_model, is_decoder
from fairseq_specdec.engine.torch_graphs import check_graphs
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file
from fairseq_specdec.io.flag_values import check_flags, flag_of
from fairseq_specdec.models.block_decoder import BlockDecoder

from .generation_flags import beam_of, check_generation_flags, sampler_of
from .generator import SpeculativeGenerator
from .options import DecodingOptions
from .pace import Planning
from .policy import DecodingConstraints
from .stats import DecodingStats
from .strategies import FIELDS, OWN_FLAGS, STRATEGIES, CommonFlags, Setup
from .strategies.base import VocabularyFlags

_MODELS = (TransformerModelBase, MultilingualTransformerModel, S2TTransformerModel)


def check_verifier(model: Any, name: str) -> None:
    """Refuse, by name, models that the engine cannot run."""
    decoder = getattr(model, "decoder", None)
    if isinstance(decoder, BlockDecoder):
        raise UsageError(
            "", f"{name} holds a drafter, not a verifier", "were --path and --drafter-path swapped?"
        )
    if not isinstance(model, _MODELS) or not is_decoder(decoder):
        raise UsageError(
            "",
            f"{name} holds a {type(model).__name__} with decoder {type(decoder).__name__}",
            "this project decodes fairseq's Transformers only",
        )
    check_model(model, name)


def check_settings(settings: Any) -> None:
    """Refuse contradictory or impossible strategy flags, before any model is loaded. Raises
    ValueError: naming the flag and the remedy."""
    if settings.strategy not in STRATEGIES:
        near = difflib.get_close_matches(str(settings.strategy), STRATEGIES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"--strategy {settings.strategy}",
            "unknown",
            f"choose one of {', '.join(STRATEGIES)} (specdec-env --flags explains them){hint}",
        )
    strategy = STRATEGIES[settings.strategy]
    for name, owners in OWN_FLAGS.items():
        if settings.strategy not in owners and getattr(settings, name) != FIELDS[name].default:
            others = [", ".join(owners[:-1]), owners[-1]]
            raise UsageError(
                flag_of(name),
                f"--strategy {settings.strategy} does not use it",
                f"leave it out, or use --strategy {' or '.join(filter(None, others))}",
            )
    for flags in (CommonFlags, *strategy.flags):
        check_flags(settings, flags)
    strategy.rule(settings)  # raises where its flags contradict one another
    if settings.trace_path is not None:
        check_new_file(settings.trace_path, "--trace-path")
    if strategy.needs_drafter and not settings.drafter_path:
        raise UsageError(
            f"--strategy {settings.strategy}",
            "needs --drafter-path",
            "train one with specdec-accelerate, or use --strategy iad, which needs none",
        )
    if settings.drafter_path and not strategy.needs_drafter:
        raise UsageError(
            "--drafter-path",
            f"--strategy {settings.strategy} uses no drafter",
            "leave it out, or use --strategy gad or gad++ (a block drafter), sps or bild (a "
            "small Transformer)",
        )
    if strategy.needs_drafter:
        check_file("--drafter-path", settings.drafter_path)


def check_dictionaries(strategy: str, src_dict: Any, tgt_dict: Any, settings: Any = None) -> None:
    """Refuse a strategy, or with ``settings`` its rule, that the dictionaries do not allow."""
    if settings is not None:
        STRATEGIES[strategy].rule(settings).read_vocabulary(tgt_dict.symbols)
    if not STRATEGIES[strategy].joined_dictionary:
        return
    if src_dict is None:
        raise UsageError(
            f"--strategy {strategy}",
            "copies tokens of the source, and the source of this task is no text",
            "use another strategy",
        )
    if src_dict.symbols != tgt_dict.symbols:
        raise UsageError(
            f"--strategy {strategy}",
            "source and target dictionaries differ, so source tokens cannot be drafts",
            "preprocess with fairseq-preprocess --joined-dictionary and train on that",
        )


class Overrides(NamedTuple):
    """Parts to use instead of those that the flags describe: for benchmarks and training."""

    drafter: Drafter | None = None  # instead of the strategy's own
    rule: AcceptanceRule | None = None
    always_draft: bool = False  # never shorten a draft nor leave one out
    keep_trace: bool = False
    planning: Planning | None = None  # how much to draft, where drafts need not be whole
    own_limits: bool = False  # as in ``DecodingConstraints``


_NO_OVERRIDES = Overrides()


def _load(path: str, src_dict: Any, tgt_dict: Any, read: Callable, dtype: Any) -> Any:
    return read(path, src_dict, tgt_dict)


def build_generator(
    models: list[Any],
    src_dict: Any,
    tgt_dict: Any,
    args: Any,
    settings: Any,
    extra: dict[str, Any] | None = None,
    stats: DecodingStats | None = None,
    load: Callable[..., Any] = _load,
    free_unpacked: bool = False,
    overrides: Overrides = _NO_OVERRIDES,
    once: Any = anew,
) -> SpeculativeGenerator:
    """Make the generator that the flags describe.

    Args:
        models: the ensemble.
        src_dict, tgt_dict: dictionaries.
        args: fairseq's generation config, or a bare namespace with the same fields.
        settings: object with the fields of ``SpecDecConfig``.
        extra: of fairseq's ``extra_gen_cls_kwargs`` ``eos``, which ends an output and is the
            decoder's first input, and ``symbols_to_strip_from_output``, which are not printed.
        load: reads drafters, as ``Setup.load``.
        free_unpacked: on a CPU, free the weights of the models and of the drafter's model that the
            engine has packed, for models that nothing else uses (other uses work, but slowly).
        overrides: parts to use instead.
        once: a ``Once`` of all generators that share what is read: packed weights.

    Raises:
        ValueError: a flag or file that cannot be honoured, by name.
    """
    check_settings(settings)
    check_generation_flags(args, settings.strategy)
    sampler = sampler_of(args)
    check_dictionaries(settings.strategy, src_dict, tgt_dict)
    given = extra or {}
    eos = tgt_dict.eos() if given.get("eos") is None else int(given["eos"])
    hidden = {eos, *(given.get("symbols_to_strip_from_output") or ())}
    for i, model in enumerate(models):
        name = f"--path (model {i + 1} of {len(models)})"
        once(("checked", model), functools.partial(check_verifier, model, name))
    device = next(models[0].parameters()).device
    check_device(device)
    check_graphs(settings.cuda_graphs, device)
    policy = DecodingConstraints(
        tgt_dict.pad(), tgt_dict.unk(), eos, getattr(args, "min_len", 1),
        getattr(args, "unkpen", 0), getattr(args, "no_repeat_ngram_size", 0),
        getattr(args, "max_len_a", 0), getattr(args, "max_len_b", 200),
        min(m.max_decoder_positions() for m in models), overrides.own_limits,
    )  # fmt: skip
    rule = overrides.rule or rule_of(settings, sampler)
    rule.read_vocabulary(tgt_dict.symbols)
    strategy = STRATEGIES[settings.strategy]
    history = bool(getattr(args, "retain_iter_history", False))
    options = DecodingOptions(
        strategy=settings.strategy,
        beam=beam_of(args, settings.strategy, rule, len(tgt_dict)),
        normalize_scores=not getattr(args, "unnormalized", False),
        len_penalty=getattr(args, "lenpen", 1),
        temperature=getattr(args, "temperature", 1.0),
        keep_trace=overrides.keep_trace or history,
        keep_history=history,
        draft_budget=0 if overrides.always_draft else settings.draft_budget,
        plans_once=strategy.plans_once and not rule.draft_independent,
        verifies=strategy.verifies,
        inference=free_unpacked or all(map(only_decodes, models)),
        free_unpacked=free_unpacked,
        hidden=frozenset(hidden),
        backend=settings.backend,
        verifier_format=settings.verifier_dtype,
        cuda_graphs=settings.cuda_graphs,
    )
    drafter, vocabulary = overrides.drafter, None
    if VocabularyFlags in strategy.flags:
        asked = settings.vocabulary_list, settings.vocabulary_window
        make = functools.partial(vocabulary_for, *asked, models[0], src_dict, tgt_dict)
        vocabulary = once(("vocabulary", *asked), make)
    if drafter is None:
        free = rule.draft_independent or options.plans_once
        quick = quickest_format(settings.backend, models) if free and sampler is None else None
        setup = Setup(
            settings, models, src_dict, tgt_dict, load, eos, sampler, options.temperature, quick,
            rule.draft_independent, options.beam, once, vocabulary,
        )  # fmt: skip
        drafter = strategy.drafter(setup)
    if settings.threads is not None:
        once("threads", functools.partial(set_threads, settings.threads))
    return SpeculativeGenerator(
        models,
        tgt_dict,
        drafter,
        rule,
        policy,
        options,
        stats,
        overrides.planning,
        once,
        vocabulary,
    )  # fmt: skip


def rule_of(settings: Any, sampler: Sampler | None) -> AcceptanceRule:
    """The acceptance rule of the strategy, or its rule for sampling."""
    strategy = STRATEGIES[settings.strategy]
    if sampler is not None and strategy.sampled_rule is not None:
        return strategy.sampled_rule(settings, sampler)
    return strategy.rule(settings)
