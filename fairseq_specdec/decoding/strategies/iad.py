"""``iad``: Input-guided Aggressive Decoding (Ge et al. 2022, section 3.1)."""

from dataclasses import dataclass
from typing import Optional

from fairseq_specdec.drafting import Drafter, InputCopyDrafter
from fairseq_specdec.drafting.edit_table import read_edits
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


@dataclass
class IadFlags:
    """Flags of ``iad``."""

    edits: Optional[str] = flag(
        None,
        "file of likely edits, which python -m fairseq_specdec.data.edits writes: they are made in "
        "the source before it is copied; the output stays exact",
    )


def _drafter(setup: Setup) -> Drafter:
    settings = setup.settings
    limit = settings.max_suffix or None
    path, edits = settings.edits, None
    if path is not None:
        edits = setup.once(("edits", path), lambda: read_edits(path, setup.src_dict))
    pad = setup.tgt_dict.pad()
    return InputCopyDrafter(pad, setup.eos, settings.block_size, limit, edits)


IAD = Strategy(
    "the source is the draft", _drafter, exact_rule, (BudgetFlags, SuffixFlags, IadFlags),
    joined_dictionary=True,
)  # fmt: skip
