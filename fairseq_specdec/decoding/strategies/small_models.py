"""``sps``, ``bild`` and ``bild-early-exit``: a small autoregressive model drafts token by token.

Speculative sampling: Leviathan et al. 2023, Chen et al. 2023. Big Little Decoder: Kim et al. 2023.
"""

import logging
import math
from dataclasses import dataclass
from typing import Any

from fairseq_specdec.acceptance import AcceptanceRule, RollbackRule, Sampler
from fairseq_specdec.drafting import AutoregressiveDrafter, Drafter, EarlyExitDrafter
from fairseq_specdec.io.flag_values import NOT_NEGATIVE, SHARE, flag

from ..drafter_file import load_small_model
from .base import (
    BudgetFlags,
    DrafterFlags,
    SamplingFlags,
    Setup,
    Strategy,
    exact_rule,
    sampling_rule,
)

logger = logging.getLogger(__name__)

# gamma of speculative sampling.
SPS_WINDOW = 4

# Most steps of the small model between two of the big one (Kim et al. 2023, 7.1.2).
BILD_WINDOW = 10

# Thresholds of the fallback and of the rollback policy (Kim et al. 2023).
_THRESHOLDS = frozenset({"alpha_fb", "alpha_rb"})


@dataclass
class ThresholdFlags:
    """Flags of ``bild`` and ``bild-early-exit``."""

    alpha_fb: float = flag(
        0.6,
        "alpha_FB, the fallback threshold: the small model hands over to the big one where its "
        "largest probability is below this (0: never, 1: always)",
        SHARE,
    )
    alpha_rb: float = flag(
        2.0,
        "alpha_RB, the rollback threshold: the big model drops the first draft token whose -log p "
        "is above this, and all after it (0: all tokens, inf: none)",
        NOT_NEGATIVE,
    )


def _rollback(settings: Any) -> AcceptanceRule:
    return RollbackRule(settings.alpha_rb)


def _sampled_rollback(settings: Any, sampler: Sampler) -> AcceptanceRule:
    return RollbackRule(settings.alpha_rb, sampler)


def _warn_if_deeper(path: str, small: Any, big: Any) -> None:
    """Warn where drafting a token costs more than verifying it: the output would not show it."""
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


def _thresholds(settings: Any) -> dict[str, Any]:
    """How the small model of Big Little Decoder drafts."""
    # No probability reaches 1 but by rounding: at 1 the small model is never sure enough.
    stop_below = float(settings.alpha_fb) if settings.alpha_fb < 1 else math.inf
    return {"stop_below": stop_below, "scored": _rollback(settings).trusts_endings}


def _small_model(setup: Setup, window: int, **more: Any) -> Drafter:
    settings = setup.settings
    path = settings.drafter_path
    model = setup.read_drafter(load_small_model)
    _warn_if_deeper(path, model, setup.models[0])
    size = settings.block_size or window
    return AutoregressiveDrafter(model, setup.draft_options(size, **more))


def _sps_drafter(setup: Setup) -> Drafter:
    return _small_model(setup, SPS_WINDOW)


def _bild_drafter(setup: Setup) -> Drafter:
    return _small_model(setup, BILD_WINDOW, **_thresholds(setup.settings))


def _early_exit_drafter(setup: Setup) -> Drafter:
    size = setup.settings.block_size or BILD_WINDOW
    options = setup.draft_options(size, **_thresholds(setup.settings))
    return EarlyExitDrafter(setup.models[0], options)


SPS = Strategy(
    "speculative sampling with a small autoregressive model; exact without --sampling",
    _sps_drafter, exact_rule, (SamplingFlags, BudgetFlags, DrafterFlags), needs_drafter=True,
    sampled_rule=sampling_rule, falls_back=True,
)  # fmt: skip
BILD = Strategy(
    "Big Little Decoder with a small model", _bild_drafter, _rollback,
    (ThresholdFlags, DrafterFlags), needs_drafter=True,
    sampled_rule=_sampled_rollback, stated=_THRESHOLDS, falls_back=True,
)  # fmt: skip
BILD_EARLY_EXIT = Strategy(
    "the same, with the first layers of an early_exit_transformer as the small model",
    _early_exit_drafter, _rollback, (ThresholdFlags,),
    sampled_rule=_sampled_rollback, stated=_THRESHOLDS, falls_back=True,
)  # fmt: skip
