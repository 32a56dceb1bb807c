"""Whether what was to run on one thread had a core to itself."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import torch

from .timing import System

# Processor time and wall time of one thread on a core of its own differ by less than this share of
# the wall time.
MARGIN = 0.15

OTHER_ENGINES = ("CTranslate2", "transformers")


def warnings(systems: Sequence[System], cuda: bool, batch_size: int) -> List[str]:
    """What to say of systems whose processor time is not the wall time of one thread.

    Args:
        systems: measured.
        cuda: they ran on a GPU, where the two times need not agree.
        batch_size: for the text.

    Returns:
        a line for each such system; none where more than one thread was allowed.
    """
    if cuda or torch.get_num_threads() > 1:
        return []
    lines = []
    for system in systems:
        wall = sum(sum(passes) for passes in system.times)
        if abs(system.cpu - wall) <= MARGIN * wall:
            continue
        why = "other programs took the core, or it waited"
        if system.cpu > wall:
            why = "it ran more than one thread"
        lines.append(
            f"WARNING: {system.name}, batch size {batch_size}: {system.cpu:.2f} s of processor "
            f"time in {wall:.2f} s, on one thread: {why}. Its times are no measurement of one "
            "thread."
        )
    return lines


def notes(run: Dict[str, Any]) -> List[str]:
    """What a run's threads mean for its times, a line each.

    Args:
        run: the command's results.
    """
    lines = [line for part in run["runs"] for line in part.get("thread_warnings", [])]
    count = run["provenance"].get("threads") or 1
    names = [row["system"] for part in run["runs"] for row in part["rows"]]
    if count > 1 and any(name.startswith(OTHER_ENGINES) for name in names):
        lines.append(
            f"Other engines ran with {count} threads inside a sentence, which can take them "
            "several times as long as one where waking a thread is slow, as on virtual machines: "
            "measure with --threads 1 too."
        )
    return lines
