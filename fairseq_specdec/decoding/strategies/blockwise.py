"""``blockwise``: Blockwise Parallel Decoding (Stern et al. 2018)."""

import math
from typing import Any

from fairseq_specdec.acceptance import (
    AcceptanceRule,
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    TopBetaRule,
)
from fairseq_specdec.drafting import BlockwiseHeadsDrafter, Drafter
from fairseq_specdec.errors import UsageError

from .base import Setup, Strategy
from .gad import GAD_RELAXED


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


BLOCKWISE = Strategy(_drafter, _rule)
# The head-based drafter of Xia et al. 2023, Table 2.
BLOCKWISE_RELAXED = GAD_RELAXED._replace(drafter=_drafter, needs_drafter=False)
