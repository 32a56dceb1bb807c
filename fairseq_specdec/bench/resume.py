"""``--resume``: go on with a run that was stopped, from what its ``--json`` holds."""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, Dict

from .workload import BenchError

FLAG = "--resume"
# What must be the same for two halves to be one run.
SAME = ("commit", "machine", "versions", "threads", "environment", "checkpoints")


def continued(path: str, run: Dict[str, Any]) -> Dict[str, Any]:
    """The results of the run that is to go on, or the new ones where it had not come to any.

    Args:
        path: ``--json``.
        run: the new run's results, still without figures.

    Raises:
        BenchError: what it holds is no part of this run.
    """
    if not os.path.exists(path):
        return run
    try:
        with open(path, encoding="utf-8") as stream:
            before: Dict[str, Any] = json.load(stream)
        facts = before["provenance"]
        unlike = [name for name in SAME if facts[name] != run["provenance"][name]]
        commands = [shlex.split(each["command"]) for each in (facts, run["provenance"])]
        one, other = ([word for word in words if word != FLAG] for words in commands)
        if one != other:
            unlike.insert(0, "command")
    except (ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{FLAG}: {path} is no result of specdec-bench") from error
    if unlike:
        raise BenchError(
            f"{FLAG}: {path} holds another run ({', '.join(unlike)} differ); name another --json "
            "or leave the flag out"
        )
    facts["resumed"] = [*facts.get("resumed", []), run["provenance"]["time"]]
    return before
