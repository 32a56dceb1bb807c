"""What the log of a step holds."""

import json
import re

# What a counter logs (io.progress), and what fairseq-train logs with ``--log-format json``.
_COUNTED = re.compile(r"(\d+ of \d+ .* left)$")
_TRAINED = re.compile(r'"num_updates": "(\d+)"')


def validations(path: str) -> list[dict[str, float]]:
    """What fairseq-train logged of its validations with ``--log-format json``, in order."""
    figures = []
    with open(path, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if '"valid_num_updates"' not in line:
                continue
            values = json.loads(line[line.index("{") :])
            figures.append({name: float(value) for name, value in values.items()})
    return figures


def sentences_per_second(path: str) -> float:
    """How fast fairseq-train went by the last line on its updates, logged as above."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = [line for line in stream if _TRAINED.search(line) and '"ups"' in line]
    values = json.loads(lines[-1][lines[-1].index("{") :])
    return float(values["ups"]) * float(values["bsz"])


def progress(path: str, start: int) -> str | None:
    """The last line of a log about how far its step is, after so many bytes."""
    with open(path, "rb") as stream:
        stream.seek(start)
        lines = stream.read().decode("utf-8", "replace").splitlines()
    for line in reversed(lines):
        counted, trained = _COUNTED.search(line.rstrip()), _TRAINED.search(line)
        if counted is not None:
            return counted.group(1)
        if trained is not None:
            return f"update {trained.group(1)}"
    return None


def complaint(path: str) -> str:
    """The line of a log that names the failure, or its last one."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = [line.strip() for line in stream if line.strip()]
    errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
    return (errors or lines or ["its log is empty"])[-1]
