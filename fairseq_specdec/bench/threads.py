"""Whether what was to run on one thread had a core to itself."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import torch

from .peers import TITLE
from .timing import System

# CPU time and wall time of one thread on a core of its own differ by less than this share.
MARGIN = 0.15


def warnings(systems: Sequence[System], cuda: bool, batch_size: int) -> List[str]:
    """A line for each system whose CPU time is not the wall time of one thread.

    None on a GPU, where the two need not agree, nor where more than one thread was allowed.
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
            f"WARNING: {system.name} used {system.cpu:.2f} s of CPU in {wall:.2f} s of wall time: "
            f"{why}. At batch size {batch_size} its times are no measurement of one thread."
        )
    return lines


def notes(run: Dict[str, Any]) -> List[str]:
    """What threads and load mean for a run's times, a line each."""
    lines = []
    count = run["provenance"].get("threads") or 1
    loads = [part["load_average"][0] for part in run["runs"] if part.get("load_average")]
    if loads and max(loads) > count + 1:
        lines.append(
            f"The machine was busy (load average {max(loads):.0f}): times depend on what else ran "
            "when, and on how the system shares its processors among processes. With one thread, "
            "CPU depends less on that. Measure again on a quiet machine."
        )
    lines += [line for part in run["runs"] for line in part.get("thread_warnings", [])]
    names = [row["system"] for part in run["runs"] for row in part["rows"]]
    if count > 1 and any(name.startswith(TITLE) for name in names):
        lines.append(
            f"{TITLE} ran with {count} threads inside a sentence, which can take it "
            "several times as long as one where waking a thread is slow, as on virtual machines: "
            "measure with --threads 1 too."
        )
    return lines
