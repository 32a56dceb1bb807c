"""``iad``: Input-guided Aggressive Decoding (Ge et al. 2022, section 3.1)."""

from __future__ import annotations

from typing import Any

from fairseq_specdec.drafting import Drafter, InputCopyDrafter

from .base import Setup, Strategy, check_draft_budget, exact_rule


def _check(settings: Any) -> None:
    check_draft_budget(settings)
    if settings.max_suffix < 0:
        raise ValueError(f"--max-suffix {settings.max_suffix}: must be 0 or more")


def _drafter(setup: Setup) -> Drafter:
    settings = setup.settings
    limit = settings.max_suffix or None
    pad = setup.tgt_dict.pad()
    return InputCopyDrafter(pad, setup.eos, settings.block_size, settings.realign, limit)


IAD = Strategy(
    _drafter,
    exact_rule,
    _check,
    flags=frozenset({"realign", "max_suffix", "draft_budget"}),
    joined_dictionary=True,
)
