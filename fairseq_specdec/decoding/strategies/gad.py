"""``gad``, ``gad++`` and ``specdec``: a non-autoregressive block drafter (Ge et al. 2022, section
3.2; Xia et al. 2023), with exact or relaxed verification."""

from dataclasses import dataclass
from typing import Any, Optional

from fairseq_specdec.acceptance import AcceptanceRule, TopBetaRule
from fairseq_specdec.drafting import Drafter, NarBlockDrafter
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import AT_LEAST_1, NOT_NEGATIVE, SHARE, flag
from fairseq_specdec.models.verifier_tables import reads_tables

from ..drafter_file import check_reading, load_drafter
from .base import (
    BudgetFlags,
    DrafterFlags,
    SamplingFlags,
    Setup,
    Strategy,
    VocabularyFlags,
    exact_rule,
    sampling_rule,
)


@dataclass
class ConfidenceFlags:
    """Flags of strategies that verify a block drafter's tokens."""

    draft_confidence: Optional[float] = flag(
        None,
        "end a draft before the first token that, with all before it, is right with less "
        "probability than this by the drafter's own estimate; gad stays exact",
        SHARE,
        otherwise="where verifying more tokens would cost more time than it saves; 0 always drafts "
        "as many as --draft-budget allows",
    )


@dataclass
class ToleranceFlags:
    """Flags of rules that accept more than the verifier's best token (Xia et al. 2023)."""

    top_beta: int = flag(
        3, "beta: a draft token must be among the verifier's beta best; 1 is exact", AT_LEAST_1
    )
    tau: float = flag(
        1.0,
        "tau: a draft token is at most this far (in log-probability) below the verifier's best; 0 "
        "is exact",
        NOT_NEGATIVE,
    )


def _relaxed_rule(settings: Any) -> AcceptanceRule:
    return TopBetaRule(settings.top_beta, settings.tau)


def _refuse_sampling(setup: Setup, model: Any) -> None:
    """Refuse drafters that do not know the distributions of their draft tokens."""
    settings = setup.settings
    if settings.draft_confidence:
        raise UsageError(
            "--draft-confidence",
            "with --sampling the drafter must say what each token was drawn from",
            "leave it out",
        )
    if model.decoder.chain is not None:
        raise UsageError(
            "--sampling",
            f"the drafter {settings.drafter_path} has a chain head, which chooses tokens and "
            "draws none",
            "use a drafter without, or --strategy sps",
        )


def check_rounding(setup: Setup, model: Any) -> None:
    """Refuse a chain over a projection of the verifier of which only rounded numbers are left."""
    decoder, settings = setup.models[0].decoder, setup.settings
    if not reads_tables(model) or model.decoder.chain is None or settings.keep_weights:
        return
    tied = decoder.share_input_output_embed
    if settings.verifier_dtype != "fp32" and not tied:
        raise UsageError(
            f"--verifier-dtype {settings.verifier_dtype}",
            f"the drafter {settings.drafter_path} reads the verifier's output projection, "
            "which is rounded then",
            "add --keep-weights",
        )


def block_size_of(setup: Setup, model: Any) -> int:
    """``--block-size``, or what the drafter was trained for, which is the most."""
    trained: int = model.decoder.block_size
    size: int = setup.settings.block_size or trained
    if size > trained:
        raise UsageError(
            f"--block-size {size}",
            f"the drafter {setup.settings.drafter_path} was trained for blocks of {trained}",
            f"use --block-size {trained} or less, or train a drafter for more",
        )
    return size


def _drafter(setup: Setup) -> Drafter:
    settings = setup.settings
    model = setup.read_drafter(load_drafter)
    check_reading(model, setup.models[0], f"--drafter-path {settings.drafter_path}")
    check_rounding(setup, model)
    if setup.sampler is not None:
        _refuse_sampling(setup, model)
    options = setup.draft_options(
        block_size_of(setup, model),
        confidence=settings.draft_confidence or 0.0,
        any_confidence=settings.draft_confidence is None and setup.sampler is None,
        row_independent=not setup.draft_independent,
    )
    return NarBlockDrafter(model, options)


_FLAGS = (BudgetFlags, DrafterFlags, ConfidenceFlags)
GAD = Strategy(
    "drafter, exact verification", _drafter, exact_rule,
    (VocabularyFlags, SamplingFlags, *_FLAGS), needs_drafter=True, sampled_rule=sampling_rule,
)  # fmt: skip
GAD_RELAXED = Strategy(
    "drafter, top-beta and tau", _drafter, _relaxed_rule, (ToleranceFlags, *_FLAGS),
    needs_drafter=True,
    stated=frozenset({"top_beta", "tau"}), plans_once=True,
)  # fmt: skip
