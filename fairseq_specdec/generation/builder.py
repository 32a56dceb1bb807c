"""From flags to a generator, or to an error that names the flag."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional

from fairseq.models.transformer import TransformerModelBase

from fairseq_specdec.acceptance import Sampler
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.drafters import Drafter
from fairseq_specdec.models.block_decoder import BlockDecoder
from fairseq_specdec.trace.files import check_path
from fairseq_specdec.verifier.allocator import keep_freed_memory
from fairseq_specdec.verifier.packed_module import given_away
from fairseq_specdec.verifier.parts import check_model, is_decoder
from fairseq_specdec.verifier.verifier import Verifier

from .draft_budget import CPU_SPARE
from .extras import ending_of
from .generator import SpeculativeGenerator
from .logits_policy import LogitsPolicy
from .stats import DecodingStats
from .strategies import DRAFTER_DTYPES, OWN_FLAGS, STRATEGIES, Setup

# Generation flags that cannot be honoured, with the value that means "not used".
REFUSED = {
    "constraints": None,
    "lm_path": None,
    "diverse_beam_groups": -1,
    "diversity_rate": -1.0,
    "match_source_len": False,
    "sampling": False,
    "sampling_topk": -1,
    "sampling_topp": -1.0,
    "retain_dropout": False,
    "print_alignment": None,
    "replace_unk": None,
    "prefix_allowed_tokens_fn": None,
    "score_reference": False,
}


def check_verifier(model: Any, name: str) -> None:
    """Refuse, by name, models that the engine cannot run.

    Raises:
        ValueError: not a fairseq Transformer, or one with a part that the engine does not run.
    """
    if isinstance(getattr(model, "decoder", None), BlockDecoder):
        raise ValueError(
            f"{name} holds a drafter, not a verifier; were --path and --drafter-path swapped?"
        )
    decoder = getattr(model, "decoder", None)
    if not isinstance(model, TransformerModelBase) or not is_decoder(decoder):
        raise ValueError(
            f"{name} holds a {type(model).__name__} with decoder {type(decoder).__name__}; --task "
            "translation_specdec decodes fairseq TransformerModel checkpoints only"
        )
    check_model(model, name)


def check_generation_flags(args: Any, strategy: str) -> None:
    """Refuse, by name, generation flags that would be ignored.

    Raises:
        ValueError: naming the flag.
    """
    honoured = STRATEGIES[strategy].honours
    for name, unused in REFUSED.items():
        if name in honoured:
            continue
        value = getattr(args, name, unused)
        if value != unused and value is not False and value is not None:
            flag = "--" + name.replace("_", "-")
            raise ValueError(
                f"{flag}: cannot be honoured by speculative decoding; leave it out, or decode "
                "with --task translation"
            )
    if getattr(args, "nbest", 1) > 1:
        raise ValueError("--nbest: there is one hypothesis a sentence (beam 1); use --nbest 1")
    if not getattr(args, "temperature", 1.0) > 0:
        raise ValueError("--temperature: must be greater than 0")


def sampler_of(args: Any) -> Optional[Sampler]:
    """How to draw tokens, from ``--sampling``, ``--sampling-topk`` and ``--sampling-topp``.

    Returns:
        None without ``--sampling``.

    Raises:
        ValueError: a value out of range or without ``--sampling``, by flag name.
    """
    given = {}
    for name in ("sampling_topk", "sampling_topp"):
        value = getattr(args, name, REFUSED[name])
        given[name[len("sampling_") :]] = None if value == REFUSED[name] else value
    sampler = Sampler(**given)
    if getattr(args, "sampling", False):
        return sampler
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"--sampling-{name}: needs --sampling")
    return None


def check_settings(settings: Any) -> None:
    """Refuse contradictory or impossible strategy flags, before any model is loaded.

    Raises:
        ValueError: naming the flag and the remedy.
    """
    if settings.strategy not in STRATEGIES:
        raise ValueError(
            f"--strategy {settings.strategy}: unknown; choose one of {', '.join(STRATEGIES)}"
        )
    if settings.block_size is not None and settings.block_size < 1:
        raise ValueError(f"--block-size {settings.block_size}: must be 1 or more")
    if not 0 <= settings.draft_confidence <= 1:
        raise ValueError(f"--draft-confidence {settings.draft_confidence}: must be from 0 to 1")
    if settings.draft_budget is not None and settings.draft_budget < 0:
        raise ValueError(f"--draft-budget {settings.draft_budget}: must be 0 or more")
    if settings.max_suffix < 0:
        raise ValueError(f"--max-suffix {settings.max_suffix}: must be 0 or more")
    if settings.drafter_dtype not in DRAFTER_DTYPES:
        raise ValueError(
            f"--drafter-dtype {settings.drafter_dtype}: choose one of {', '.join(DRAFTER_DTYPES)}"
        )
    if settings.trace_path is not None:
        check_path(settings.trace_path, "--trace-path")
    for name, owners in OWN_FLAGS.items():
        default = TranslationSpecDecConfig.__dataclass_fields__[name].default
        if settings.strategy not in owners and getattr(settings, name) != default:
            others = [", ".join(owners[:-1]), owners[-1]]
            raise ValueError(
                f"--{name.replace('_', '-')}: --strategy {settings.strategy} does not use it; "
                f"leave it out, or use --strategy {' or '.join(filter(None, others))}"
            )
    strategy = STRATEGIES[settings.strategy]
    strategy.rule(settings)
    needs_drafter = strategy.needs_drafter
    if needs_drafter and not settings.drafter_path:
        raise ValueError(f"--strategy {settings.strategy}: needs --drafter-path")
    if needs_drafter and not os.path.isfile(settings.drafter_path):
        raise ValueError(f"--drafter-path: no such file: {settings.drafter_path}")
    if not needs_drafter and settings.drafter_path:
        raise ValueError(
            f"--drafter-path: --strategy {settings.strategy} uses no drafter; leave it out, or "
            "use --strategy gad or gad++ (a block drafter), sps or bild (a small Transformer)"
        )


def check_dictionaries(strategy: str, src_dict: Any, tgt_dict: Any, settings: Any = None) -> None:
    """Refuse a strategy, or with ``settings`` its rule, that the dictionaries do not allow.

    Raises:
        ValueError: ``iad`` where source and target differ, ``--accept-epsilon`` for words.
    """
    if settings is not None:
        STRATEGIES[strategy].rule(settings).read_vocabulary(tgt_dict.symbols)
    if strategy == "iad" and src_dict.symbols != tgt_dict.symbols:
        raise ValueError(
            "--strategy iad: source and target dictionaries differ, so source tokens cannot be "
            "drafts; preprocess with fairseq-preprocess --joined-dictionary and train on that"
        )


def _load(path: str, src_dict: Any, tgt_dict: Any, read: Callable) -> Any:
    return read(path, src_dict, tgt_dict)


def build_generator(
    models: List[Any],
    src_dict: Any,
    tgt_dict: Any,
    args: Any,
    settings: Any,
    extra: Optional[Dict[str, Any]] = None,
    drafter: Optional[Drafter] = None,
    stats: Optional[DecodingStats] = None,
    load: Optional[Callable[[str, Any, Any, Callable], Any]] = None,
    release: bool = False,
) -> SpeculativeGenerator:
    """Make the generator that the flags describe.

    Args:
        models: the ensemble.
        src_dict, tgt_dict: dictionaries.
        args: fairseq's generation config, or a bare namespace with the same fields.
        settings: object with the fields of ``TranslationSpecDecConfig``.
        extra: fairseq's ``extra_gen_cls_kwargs``; see ``ending_of``.
        drafter: use this one instead of the strategy's own.
        stats: counters to add to.
        load: reads drafters, as ``Setup.load``.
        release: on a CPU, let the models and the drafter's go of the weights that the engine has
            packed: for models that nothing else will use (it still could, only slowly).

    Raises:
        ValueError: a flag or file that cannot be honoured, by name.
    """
    check_settings(settings)
    check_generation_flags(args, settings.strategy)
    sampler = sampler_of(args)
    check_dictionaries(settings.strategy, src_dict, tgt_dict)
    ending = ending_of(extra, tgt_dict)
    for i, model in enumerate(models):
        check_verifier(model, f"--path (model {i + 1} of {len(models)})")
        model.eval()  # as stock
    stats = stats or DecodingStats()
    strategy = STRATEGIES[settings.strategy]
    if drafter is None:
        setup = Setup(
            settings,
            models,
            src_dict,
            tgt_dict,
            stats,
            load or _load,
            ending.eos,
            sampler,
            getattr(args, "temperature", 1.0),
            release,
        )
        drafter = strategy.drafter(setup)
    rule = strategy.rule(settings)
    if sampler is not None and strategy.sampled_rule is not None:
        rule = strategy.sampled_rule(settings, sampler)
    rule.read_vocabulary(tgt_dict.symbols)
    policy = LogitsPolicy(
        tgt_dict.pad(),
        tgt_dict.unk(),
        ending.eos,
        getattr(args, "min_len", 1),
        getattr(args, "unkpen", 0),
        getattr(args, "no_repeat_ngram_size", 0),
    )
    on_cpu = not next(models[0].parameters()).is_cuda
    if on_cpu:
        keep_freed_memory()
    spare = settings.draft_budget
    if spare is None and on_cpu:
        spare = CPU_SPARE
    return SpeculativeGenerator(
        Verifier(models, getattr(args, "temperature", 1.0), drafter.read_layers, release),
        drafter,
        rule,
        policy,
        max_len_a=getattr(args, "max_len_a", 0),
        max_len_b=getattr(args, "max_len_b", 200),
        max_positions=min(m.max_decoder_positions() for m in models),
        normalize_scores=not getattr(args, "unnormalized", False),
        len_penalty=getattr(args, "lenpen", 1),
        keep_trace=bool(getattr(args, "retain_iter_history", False)),
        strategy=settings.strategy,
        stats=stats,
        spare_rows=spare or None,
        gives_up=settings.draft_budget != 0,
        inference=release or all(map(given_away, models)),
        hidden=ending.hidden,
    )
