"""The flags that decode a checkpoint with the task of its own."""

import shlex
from typing import Any

from fairseq_specdec.checkpoints.own_task import STOCK
from fairseq_specdec.decoding.drafter_file import TrainingSettings
from fairseq_specdec.errors import UsageError


def task_of(
    state: dict[str, Any], asked: str | None, pair: str | None = None
) -> tuple[list[str], list[str]]:
    """(flags of the task, pairs) of a verifier; no flags of fairseq's translation, and no pairs of
    a task of one pair. ``asked``: pairs to use, joined by commas; ``pair``: the only one; None for
    all of its training."""
    settings = TrainingSettings(state)
    words = shlex.split(settings.flags(ours=True))
    if not settings.several:
        if asked is not None:
            raise UsageError(f"--lang-pairs {asked}", "the verifier has one pair", "leave it out")
        return words if settings.decodes_here and settings.name != STOCK else [], []
    trained = ",".join(settings.pairs())
    pairs = asked or pair or trained
    if not pairs:
        raise UsageError("--lang-pairs", "missing", "name the pairs, as en-de,en-fr")
    if trained:
        words[words.index("--lang-pairs") + 1] = pairs
    else:
        words += ["--lang-pairs", pairs]
    if "--langs" not in words and "--lang-dict" not in words:
        words += ["--langs", ",".join(settings.languages() or ())]
    return words, pairs.split(",")
