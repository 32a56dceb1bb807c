"""What the log of a step holds."""

import json
from typing import Dict, List


def validations(path: str) -> List[Dict[str, float]]:
    """What fairseq-train logged of its validations with ``--log-format json``, in order."""
    figures = []
    with open(path, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if '"valid_num_updates"' not in line:
                continue
            values = json.loads(line[line.index("{") :])
            figures.append({name: float(value) for name, value in values.items()})
    return figures


def complaint(path: str) -> str:
    """The line of a log that names the failure, or its last one."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = [line.strip() for line in stream if line.strip()]
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return (errors or lines or ["its log is empty"])[-1]
