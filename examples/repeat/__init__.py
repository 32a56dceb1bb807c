"""``--user-dir examples/repeat --task translation_specdec --strategy repeat``."""

import fairseq_specdec.tasks  # noqa: F401  registers the tasks
from fairseq_specdec.decoding.strategies import Setup, Strategy, register
from fairseq_specdec.decoding.strategies.base import BudgetFlags, exact_rule
from fairseq_specdec.decoding.strategies.iad import SuffixFlags

from .drafter import RepeatDrafter

# Draft tokens of an iteration unless --block-size is given.
WINDOW = 4


def _drafter(setup: Setup) -> RepeatDrafter:
    settings = setup.settings
    return RepeatDrafter(settings.block_size or WINDOW, settings.max_suffix or 1)


register(
    "repeat",
    Strategy("what followed the same tokens", _drafter, exact_rule, (BudgetFlags, SuffixFlags)),
)
