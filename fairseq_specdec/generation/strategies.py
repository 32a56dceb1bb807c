"""Which drafter and which rule each strategy is made of: one entry per system of the papers."""

from __future__ import annotations

import logging
import math
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional

import torch

from fairseq_specdec.acceptance import (
    AcceptanceRule,
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    RollbackRule,
    Sampler,
    SamplingRule,
    TopBetaRule,
)
from fairseq_specdec.drafters import (
    AutoregressiveDrafter,
    BlockwiseHeadsDrafter,
    Drafter,
    EarlyExitDrafter,
    InputCopyDrafter,
    NarBlockDrafter,
    NoDrafter,
)

from .drafter_file import check_reading, load_drafter, load_small_model
from .stats import DecodingStats

logger = logging.getLogger(__name__)

DRAFTER_DTYPES: Dict[str, Optional[torch.dtype]] = {
    "same": None,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}

# gamma of speculative sampling.
SPS_WINDOW = 4

# The flags that a strategy with a rule for sampling honours.
SAMPLING_FLAGS = frozenset({"sampling", "sampling_topk", "sampling_topp"})

# Most steps of the small model between two of the big one: paper 003, 7.1.2.
BILD_WINDOW = 10


# Strategies whose drafter is a model that decodes blocks of masks.
BLOCK_DRAFTED = ("gad", "gad++", "specdec")

# Flags of some strategies only. Another strategy refuses them, unless they are at their default.
# --block-size is missing: models that are trained under this task have a flag of that name too.
OWN_FLAGS = {
    "drafter_dtype": (*BLOCK_DRAFTED, "sps", "bild"),
    "collapse_repeats": BLOCK_DRAFTED,
    "draft_confidence": BLOCK_DRAFTED,
    "realign": ("iad",),
    "max_suffix": ("iad",),
    "draft_budget": ("iad", "gad", "sps", "blockwise"),
    "top_beta": ("gad++", "specdec"),
    "tau": ("gad++", "specdec"),
    "accept_top_k": ("blockwise",),
    "accept_epsilon": ("blockwise",),
    "min_block_size": ("blockwise",),
    "alpha_fb": ("bild", "bild-early-exit"),
    "alpha_rb": ("bild", "bild-early-exit"),
}


class Setup(NamedTuple):
    """What a strategy's parts may be made from.

    Attributes:
        settings: the fields of ``TranslationSpecDecConfig``.
        models: the ensemble.
        src_dict, tgt_dict: dictionaries.
        stats: counters to add to.
        load: reads ``--drafter-path``: ``load(path, src_dict, tgt_dict, read)``, where ``read`` is
            ``load_drafter`` or ``load_small_model``.
        eos: token id that ends an output and stands in front of it.
        sampler: how to draw tokens under ``--sampling``; None without it.
        temperature: ``--temperature``.
        release: let the drafter's model go of weights that lie packed elsewhere.
    """

    settings: Any
    models: List[Any]
    src_dict: Any
    tgt_dict: Any
    stats: DecodingStats
    load: Callable[[str, Any, Any, Callable], Any]
    eos: int
    sampler: Optional[Sampler] = None
    temperature: float = 1.0
    release: bool = False


class Strategy(NamedTuple):
    """What a system of the papers is made of.

    Attributes:
        drafter: makes the drafter.
        rule: makes the acceptance rule from the flags; raises ValueError, naming the flag, for
            values that make no sense.
        needs_drafter: ``--drafter-path`` must be given (else it must not be).
        honours: generation flags (as in ``builder.REFUSED``) that this strategy can honour though
            others refuse them.
        sampled_rule: makes the rule under ``--sampling``, which must then be honoured.
    """

    drafter: Callable[[Setup], Drafter]
    rule: Callable[[Any], AcceptanceRule]
    needs_drafter: bool = False
    honours: FrozenSet[str] = frozenset()
    sampled_rule: Optional[Callable[[Any, Sampler], AcceptanceRule]] = None


def follow(drafter: Drafter, verifier: Any) -> None:
    """Move a drafter's model, if it has one, to the verifier's device, and to the dtype asked for
    or else the verifier's.

    fairseq moves and halves the models of ``--path`` only.
    """
    if isinstance(drafter, EarlyExitDrafter):
        drafter.attach(verifier)
    elif isinstance(drafter, (NarBlockDrafter, AutoregressiveDrafter)):
        like = next(verifier.parameters())
        dtype = drafter.dtype or like.dtype
        if any(p.device != like.device or p.dtype != dtype for p in drafter.model.parameters()):
            drafter.model.to(device=like.device, dtype=dtype)
            drafter.refresh()


def _exact(settings: Any) -> AcceptanceRule:
    return ExactRule()


def _top_beta(settings: Any) -> AcceptanceRule:
    return TopBetaRule(settings.top_beta, settings.tau)


def _sampled(settings: Any, sampler: Sampler) -> AcceptanceRule:
    return SamplingRule(sampler)


def _no_drafter(setup: Setup) -> Drafter:
    return NoDrafter()


def _input_copy(setup: Setup) -> Drafter:
    settings = setup.settings
    limit = settings.max_suffix or None
    pad = setup.tgt_dict.pad()
    return InputCopyDrafter(pad, setup.eos, settings.block_size, settings.realign, limit)


def _nar_block(setup: Setup) -> Drafter:
    settings = setup.settings
    for name in ("collapse_repeats", "draft_confidence"):
        if setup.sampler is not None and getattr(settings, name):
            raise ValueError(
                f"--{name.replace('_', '-')}: with --sampling the drafter must say what each token "
                "was drawn from; leave it out"
            )
    model = setup.load(settings.drafter_path, setup.src_dict, setup.tgt_dict, load_drafter)
    check_reading(model, setup.models[0], f"--drafter-path {settings.drafter_path}")
    if setup.sampler is not None and model.decoder.chain is not None:
        raise ValueError(
            f"--sampling: the drafter {settings.drafter_path} has a chain head, which chooses "
            "tokens and draws none; use a drafter without, or --strategy sps"
        )
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
        settings.draft_confidence,
        setup.temperature,
        setup.sampler,
        setup.release,
    )
    follow(drafter, setup.models[0])
    return drafter


def _warn_if_deeper(path: str, small: Any, big: Any) -> None:
    """Say so when drafting a token costs more than verifying it: nothing else would notice."""
    ours, theirs = (
        sum(parameter.numel() for parameter in model.decoder.layers.parameters())
        for model in (small, big)
    )
    if ours > theirs:
        logger.warning(
            "--drafter-path %s: its decoder layers hold %d numbers, those of --path %d; were the "
            "two swapped?",
            path,
            ours,
            theirs,
        )


def _autoregressive(
    setup: Setup, window: int = SPS_WINDOW, stop_below: Optional[float] = None
) -> Drafter:
    settings = setup.settings
    model = setup.load(settings.drafter_path, setup.src_dict, setup.tgt_dict, load_small_model)
    _warn_if_deeper(settings.drafter_path, model, setup.models[0])
    model.eval()
    drafter = AutoregressiveDrafter(
        model,
        settings.block_size or window,
        setup.tgt_dict.pad(),
        setup.eos,
        setup.stats.stopwatch,
        DRAFTER_DTYPES[settings.drafter_dtype],
        stop_below,
        temperature=setup.temperature,
        sampler=setup.sampler,
        release=setup.release,
    )
    follow(drafter, setup.models[0])
    return drafter


def _rollback(settings: Any) -> AcceptanceRule:
    if not 0 <= settings.alpha_fb <= 1:
        raise ValueError(f"--alpha-fb {settings.alpha_fb}: must be from 0 to 1")
    return RollbackRule(settings.alpha_rb)


def _sampled_rollback(settings: Any, sampler: Sampler) -> AcceptanceRule:
    return RollbackRule(settings.alpha_rb, sampler)


def _stop_below(settings: Any) -> float:
    # No probability reaches 1 but by rounding: at 1 the small model is never sure enough.
    return float(settings.alpha_fb) if settings.alpha_fb < 1 else math.inf


def _small_model(setup: Setup) -> Drafter:
    return _autoregressive(setup, BILD_WINDOW, _stop_below(setup.settings))


def _early_exit(setup: Setup) -> Drafter:
    settings = setup.settings
    return EarlyExitDrafter(
        setup.models[0],
        settings.block_size or BILD_WINDOW,
        setup.tgt_dict.pad(),
        setup.eos,
        setup.stats.stopwatch,
        stop_below=_stop_below(settings),
        temperature=setup.temperature,
        sampler=setup.sampler,
    )


def _blockwise_rule(settings: Any) -> AcceptanceRule:
    top_k, epsilon = settings.accept_top_k, settings.accept_epsilon
    if top_k is not None and epsilon is not None:
        raise ValueError("--accept-top-k and --accept-epsilon: choose one of them")
    if top_k is not None and top_k < 1:
        raise ValueError(f"--accept-top-k {top_k}: must be 1 or more")
    rule: AcceptanceRule = ExactRule()
    if top_k is not None:
        rule = TopBetaRule(top_k, math.inf)
    elif epsilon is not None:
        rule = DistanceRule(epsilon)
    if settings.block_size is not None and settings.min_block_size > settings.block_size:
        raise ValueError(
            f"--min-block-size {settings.min_block_size}: at most --block-size, which is "
            f"{settings.block_size}"
        )
    return MinimumBlockRule(rule, settings.min_block_size)


def _blockwise_heads(setup: Setup) -> Drafter:
    settings = setup.settings
    model = setup.models[0]
    trained = getattr(getattr(model.decoder, "block_heads", None), "block_size", None)
    if trained is None:
        raise ValueError(
            f"--path holds a {type(model).__name__}, and --strategy blockwise drafts with the "
            "heads of a blockwise_transformer; train heads for it with fairseq-train --arch "
            "blockwise_transformer --init-from, and pass the result to --path"
        )
    size = settings.block_size or trained
    if size > trained:
        raise ValueError(
            f"--block-size {size}: the model of --path has {trained} heads; use --block-size "
            f"{trained} or less, or train more heads"
        )
    if settings.min_block_size > size:
        raise ValueError(
            f"--min-block-size {settings.min_block_size}: at most the model's block size, which "
            f"is {size}"
        )
    return BlockwiseHeadsDrafter(model, size, setup.tgt_dict.pad())


STRATEGIES: Dict[str, Strategy] = {
    "greedy": Strategy(_no_drafter, _exact, honours=SAMPLING_FLAGS, sampled_rule=_sampled),
    "iad": Strategy(_input_copy, _exact),
    "gad": Strategy(_nar_block, _exact, True, SAMPLING_FLAGS, _sampled),
    "gad++": Strategy(_nar_block, _top_beta, needs_drafter=True),
    "specdec": Strategy(_nar_block, _top_beta, needs_drafter=True),
    "sps": Strategy(_autoregressive, _exact, True, SAMPLING_FLAGS, _sampled),
    "blockwise": Strategy(_blockwise_heads, _blockwise_rule),
    "bild": Strategy(_small_model, _rollback, True, SAMPLING_FLAGS, _sampled_rollback),
    "bild-early-exit": Strategy(_early_exit, _rollback, False, SAMPLING_FLAGS, _sampled_rollback),
}
