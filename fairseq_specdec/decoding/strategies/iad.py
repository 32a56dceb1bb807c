"""``iad``: Input-guided Aggressive Decoding (Ge et al. 2022, section 3.1)."""

from dataclasses import dataclass

from fairseq_specdec.drafting import Drafter, InputCopyDrafter
from fairseq_specdec.io.flag_values import AT_LEAST_0, flag

from .base import BudgetFlags, Setup, Strategy, exact_rule


@dataclass
class SuffixFlags:
    """Flags of strategies that search for the end of the output, to find what follows it."""

    max_suffix: int = flag(
        3,
        "longest suffix of the output that is looked for in the source to find what follows, "
        "in tokens, q + 1 of the paper, where 0 is no limit; the output stays exact",
        AT_LEAST_0,
    )


def _drafter(setup: Setup) -> Drafter:
    settings = setup.settings
    pad, limit = setup.tgt_dict.pad(), settings.max_suffix or None
    return InputCopyDrafter(pad, setup.eos, settings.block_size, limit)


IAD = Strategy(
    "the source is the draft", _drafter, exact_rule, (BudgetFlags, SuffixFlags),
    joined_dictionary=True,
)  # fmt: skip
