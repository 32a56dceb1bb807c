"""``iad``: Input-guided Aggressive Decoding (Ge et al. 2022, section 3.1); and ``given``, the same
of another text than the source."""

from dataclasses import dataclass
from typing import Optional

from fairseq_specdec.drafting import Drafter, InputCopyDrafter
from fairseq_specdec.drafting.copying import GivenTextDrafter
from fairseq_specdec.drafting.twin import TwinDrafter
from fairseq_specdec.io.flag_values import AT_LEAST_0, flag

from . import greedy
from .base import BudgetFlags, Setup, Strategy, VocabularyFlags, exact_rule


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
class GivenFlags:
    """Flags of ``given``."""

    draft_file: Optional[str] = flag(
        None,
        "for fairseq-generate: file with a line for each sentence of the split, in its order and "
        "split into the target's subwords, that the output is expected to be like",
        otherwise="drafts come from Python or specdec-translate",
    )


def _drafter(setup: Setup, kind: type[InputCopyDrafter] = InputCopyDrafter) -> InputCopyDrafter:
    settings = setup.settings
    pad, limit = setup.tgt_dict.pad(), settings.max_suffix or None
    return kind(pad, setup.eos, settings.block_size, limit)


def _given(setup: Setup) -> Drafter:
    text, drafter = _drafter(setup, GivenTextDrafter), greedy.drafter(setup)
    if not isinstance(drafter, TwinDrafter):
        return text
    drafter.text = text
    return drafter


IAD = Strategy(
    "the source is the draft", _drafter, exact_rule,
    (VocabularyFlags, BudgetFlags, SuffixFlags), joined_dictionary=True,
)  # fmt: skip
GIVEN = Strategy(
    "a text that the output is expected to be like is the draft, such as an earlier translation",
    _given, exact_rule, (VocabularyFlags, BudgetFlags, SuffixFlags, GivenFlags, greedy.GreedyFlags),
)  # fmt: skip
