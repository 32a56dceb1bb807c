"""``blockwise``: Blockwise Parallel Decoding (Stern et al. 2018)."""

import math
from dataclasses import dataclass
from typing import Any, Optional

from fairseq_specdec.acceptance import (
    AcceptanceRule,
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    TopBetaRule,
)
from fairseq_specdec.drafting import BlockwiseHeadsDrafter, Drafter
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import AT_LEAST_1, NOT_NEGATIVE, flag

from .base import BudgetFlags, Setup, Strategy, VocabularyFlags
from .gad import GAD_RELAXED, ToleranceFlags


@dataclass
class BlockwiseFlags:
    """Flags of ``blockwise``."""

    accept_top_k: Optional[int] = flag(
        None,
        "accept a draft token that is among the verifier's so many best (top-k selection); 1 is "
        "exact",
        AT_LEAST_1,
        otherwise="exact",
    )
    accept_epsilon: Optional[float] = flag(
        None,
        "epsilon: accept a draft token whose number is at most this far from the verifier's "
        "choice, for vocabularies of integers, such as pixels; 0 is exact",
        NOT_NEGATIVE,
        otherwise="exact",
    )
    min_block_size: int = flag(
        1,
        "l: tokens added in every iteration at least, unseen if need be, whatever else decides; at "
        "most k, and 1 changes nothing",
        AT_LEAST_1,
    )


def _rule(settings: Any) -> AcceptanceRule:
    top_k, epsilon = settings.accept_top_k, settings.accept_epsilon
    if top_k is not None and epsilon is not None:
        raise UsageError("--accept-top-k and --accept-epsilon", "choose one of them")
    rule: AcceptanceRule = ExactRule()
    if top_k is not None:
        rule = TopBetaRule(top_k, math.inf)
    elif epsilon is not None:
        rule = DistanceRule(epsilon)
    if settings.block_size is not None and settings.min_block_size > settings.block_size:
        raise UsageError(
            f"--min-block-size {settings.min_block_size}",
            f"at most --block-size, which is {settings.block_size}",
        )
    # The rule alone may run natively.
    return rule if settings.min_block_size == 1 else MinimumBlockRule(rule, settings.min_block_size)


def _drafter(setup: Setup) -> Drafter:
    settings = setup.settings
    model = setup.models[0]
    trained = getattr(getattr(model.decoder, "block_heads", None), "block_size", None)
    if trained is None:
        raise UsageError(
            "",
            f"--path holds a {type(model).__name__}, and --strategy blockwise drafts with the "
            "heads of a blockwise_transformer",
            "train heads for it with fairseq-train --arch blockwise_transformer --init-from, "
            "and pass the result to --path",
        )
    size = settings.block_size or trained
    if size > trained:
        raise UsageError(
            f"--block-size {size}",
            f"the model of --path has {trained} heads",
            f"use --block-size {trained} or less, or train more heads",
        )
    if settings.min_block_size > size:
        raise UsageError(
            f"--min-block-size {settings.min_block_size}",
            f"at most the model's block size, which is {size}",
        )
    return BlockwiseHeadsDrafter(model, size, setup.tgt_dict.pad())


BLOCKWISE = Strategy(
    "heads of a blockwise_transformer", _drafter, _rule,
    (VocabularyFlags, BudgetFlags, BlockwiseFlags),
)  # fmt: skip
# The head-based drafter of Xia et al. 2023, Table 2.
BLOCKWISE_RELAXED = GAD_RELAXED._replace(
    help="the same heads, top-beta and tau", drafter=_drafter, flags=(ToleranceFlags, BudgetFlags),
    needs_drafter=False,
)  # fmt: skip
