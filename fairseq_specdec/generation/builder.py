"""From flags to a generator: which drafter and which rule each strategy is made of."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import torch
from fairseq.models.transformer import TransformerModelBase

from fairseq_specdec.acceptance import AcceptanceRule, ExactRule, TopBetaRule
from fairseq_specdec.drafters import Drafter, InputCopyDrafter, NarBlockDrafter, NoDrafter
from fairseq_specdec.models.block_decoder import BlockDecoder
from fairseq_specdec.verifier.verifier import Verifier

from .drafter_file import load_drafter
from .generator import SpeculativeGenerator
from .logits_policy import LogitsPolicy
from .stats import DecodingStats

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


DRAFTER_DTYPES: Dict[str, Optional[torch.dtype]] = {
    "same": None,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


class _Setup(NamedTuple):
    """What a strategy's parts may be made from."""

    settings: Any
    models: List[Any]
    src_dict: Any
    tgt_dict: Any
    stats: DecodingStats
    load: Callable[[str, Any, Any], Any]


class Strategy(NamedTuple):
    """One line per system of the papers."""

    drafter: Callable[[_Setup], Drafter]
    rule: Callable[[Any], AcceptanceRule]


def _exact(settings: Any) -> AcceptanceRule:
    return ExactRule()


def _top_beta(settings: Any) -> AcceptanceRule:
    return TopBetaRule(settings.top_beta, settings.tau)


def _no_drafter(setup: _Setup) -> Drafter:
    return NoDrafter()


def _input_copy(setup: _Setup) -> Drafter:
    size = setup.settings.block_size
    return InputCopyDrafter(setup.tgt_dict.pad(), setup.tgt_dict.eos(), size)


def _nar_block(setup: _Setup) -> Drafter:
    settings = setup.settings
    model = setup.load(settings.drafter_path, setup.src_dict, setup.tgt_dict)
    trained = model.decoder.block_size
    size = settings.block_size or trained
    if size > trained:
        raise ValueError(
            f"--block-size {size}: the drafter {settings.drafter_path} was trained for blocks of "
            f"{trained}; use --block-size {trained} or less, or train a drafter for more"
        )
    model.eval()
    drafter = NarBlockDrafter(
        model,
        size,
        setup.tgt_dict.pad(),
        setup.stats.stopwatch,
        DRAFTER_DTYPES[settings.drafter_dtype],
        settings.collapse_repeats,
    )
    follow(drafter, setup.models[0])
    return drafter


STRATEGIES: Dict[str, Strategy] = {
    "greedy": Strategy(_no_drafter, _exact),
    "iad": Strategy(_input_copy, _exact),
    "gad": Strategy(_nar_block, _exact),
    "gad++": Strategy(_nar_block, _top_beta),
    "specdec": Strategy(_nar_block, _top_beta),
}


def follow(drafter: Drafter, verifier: Any) -> None:
    """Move a drafter's model, if it has one, to the verifier's device, and to the dtype asked for
    or else the verifier's.

    fairseq moves and halves the models of ``--path`` only.
    """
    if isinstance(drafter, NarBlockDrafter):
        like = next(verifier.parameters())
        drafter.model.to(device=like.device, dtype=drafter.dtype or like.dtype)
        drafter.refresh()


def check_verifier(model: Any, name: str) -> None:
    """Refuse, by name, models that the engine cannot run.

    Raises:
        ValueError: not a fairseq Transformer.
    """
    if isinstance(getattr(model, "decoder", None), BlockDecoder):
        raise ValueError(
            f"{name} holds a drafter, not a verifier; were --path and --drafter-path swapped?"
        )
    stock = ("TransformerDecoder", "TransformerDecoderBase")
    decoder = type(getattr(model, "decoder", None)).__name__
    if not isinstance(model, TransformerModelBase) or decoder not in stock:
        raise ValueError(
            f"{name} holds a {type(model).__name__} with decoder {decoder}; --task "
            "translation_specdec decodes fairseq TransformerModel checkpoints only"
        )


def check_generation_flags(args: Any) -> None:
    """Refuse, by name, generation flags that would be ignored.

    Raises:
        ValueError: naming the flag.
    """
    for name, unused in REFUSED.items():
        value = getattr(args, name, unused)
        if value != unused and value is not False and value is not None:
            flag = "--" + name.replace("_", "-")
            raise ValueError(
                f"{flag}: cannot be honoured by speculative decoding; leave it out, or decode "
                "with --task translation"
            )
    if getattr(args, "nbest", 1) > 1:
        raise ValueError("--nbest: there is one hypothesis a sentence (beam 1); use --nbest 1")
    if getattr(args, "temperature", 1.0) <= 0:
        raise ValueError("--temperature: must be greater than 0")


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
    if settings.drafter_dtype not in DRAFTER_DTYPES:
        raise ValueError(
            f"--drafter-dtype {settings.drafter_dtype}: choose one of {', '.join(DRAFTER_DTYPES)}"
        )
    strategy = STRATEGIES[settings.strategy]
    strategy.rule(settings)
    needs_drafter = strategy.drafter is _nar_block
    if needs_drafter and not settings.drafter_path:
        raise ValueError(f"--strategy {settings.strategy}: needs --drafter-path")
    if needs_drafter and not os.path.isfile(settings.drafter_path):
        raise ValueError(f"--drafter-path: no such file: {settings.drafter_path}")
    if not needs_drafter and settings.drafter_path:
        raise ValueError(
            f"--drafter-path: --strategy {settings.strategy} uses no drafter; leave it out, or "
            "use --strategy gad or gad++"
        )


def check_dictionaries(strategy: str, src_dict: Any, tgt_dict: Any) -> None:
    """Refuse a strategy that the dictionaries do not allow.

    Raises:
        ValueError: ``iad`` where source and target differ.
    """
    if strategy == "iad" and src_dict.symbols != tgt_dict.symbols:
        raise ValueError(
            "--strategy iad: source and target dictionaries differ, so source tokens cannot be "
            "drafts; preprocess with fairseq-preprocess --joined-dictionary and train on that"
        )


def build_generator(
    models: List[Any],
    src_dict: Any,
    tgt_dict: Any,
    args: Any,
    settings: Any,
    lm_model: Any = None,
    drafter: Optional[Drafter] = None,
    stats: Optional[DecodingStats] = None,
    load: Optional[Callable[[str, Any, Any], Any]] = None,
) -> SpeculativeGenerator:
    """Make the generator that the flags describe.

    Args:
        models: the ensemble.
        src_dict, tgt_dict: dictionaries.
        args: fairseq's generation config, or a bare namespace with the same fields.
        settings: object with the fields of ``TranslationSpecDecConfig``.
        lm_model: refused.
        drafter: use this one instead of the strategy's own.
        stats: counters to add to.
        load: used in place of ``load_drafter``.

    Raises:
        ValueError: a flag or file that cannot be honoured, by name.
    """
    check_settings(settings)
    check_generation_flags(args)
    check_dictionaries(settings.strategy, src_dict, tgt_dict)
    if lm_model is not None:
        raise ValueError("--lm-path: cannot be honoured by speculative decoding")
    for i, model in enumerate(models):
        check_verifier(model, f"--path (model {i + 1} of {len(models)})")
    stats = stats or DecodingStats()
    strategy = STRATEGIES[settings.strategy]
    if drafter is None:
        setup = _Setup(settings, models, src_dict, tgt_dict, stats, load or load_drafter)
        drafter = strategy.drafter(setup)
    policy = LogitsPolicy(
        tgt_dict.pad(),
        tgt_dict.unk(),
        tgt_dict.eos(),
        getattr(args, "min_len", 1),
        getattr(args, "unkpen", 0),
        getattr(args, "no_repeat_ngram_size", 0),
    )
    return SpeculativeGenerator(
        Verifier(models, getattr(args, "temperature", 1.0)),
        drafter,
        strategy.rule(settings),
        policy,
        max_len_a=getattr(args, "max_len_a", 0),
        max_len_b=getattr(args, "max_len_b", 200),
        max_positions=min(m.max_decoder_positions() for m in models),
        normalize_scores=not getattr(args, "unnormalized", False),
        len_penalty=getattr(args, "lenpen", 1),
        keep_trace=bool(getattr(args, "retain_iter_history", False)),
        strategy=settings.strategy,
        stats=stats,
    )
