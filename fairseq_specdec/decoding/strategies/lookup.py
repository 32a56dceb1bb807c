"""``lookup``: prompt lookup decoding (Saxena 2023) in the source and in the output itself."""

from fairseq_specdec.drafting import Drafter, LookupDrafter

from .base import BudgetFlags, Setup, Strategy, exact_rule
from .iad import SuffixFlags

# Draft tokens of an iteration unless --block-size is given.
WINDOW = 32


def _drafter(setup: Setup) -> Drafter:
    settings, source = setup.settings, setup.src_dict
    return LookupDrafter(
        setup.tgt_dict.pad(),
        setup.eos,
        settings.block_size or WINDOW,
        reads_source=source is not None and source.symbols == setup.tgt_dict.symbols,
        max_suffix=settings.max_suffix or None,
    )


LOOKUP = Strategy(
    "what followed the last tokens where they occurred before", _drafter, exact_rule,
    (BudgetFlags, SuffixFlags),
)  # fmt: skip
