"""What a distillation kept and dropped, in sentences."""

from __future__ import annotations

import os
from typing import Any, Dict

# From this share of dropped pairs on it is a warning.
MANY = 0.05
# Reasons of plan.REASONS, as they follow "N".
WORDS = {
    "source_too_long": "sources longer than the teacher can read",
    "exceeds_max_tokens": "longer than --max-tokens",
    "empty_source": "empty sources",
    "no_hypothesis": "without an output",
    "empty_target": "with an empty output",
    "length_limit": "outputs cut off at the length limit (--max-len-a, --max-len-b)",
    "length_ratio": "outputs of another length than --max-length-ratio allows",
}


def told(destination: str, counts: Dict[str, Any], dropped: str) -> str:
    """A report for people.

    Args:
        destination: the corpus.
        counts: of ``distill.json``.
        dropped: file in it that lists the dropped pairs.
    """
    chosen, lost = counts["chosen"], counts["dropped"]
    said = f"{destination}: {counts['kept']:,} of {chosen:,} sentence pairs kept"
    if not lost:
        return said + ", none dropped"
    reasons = sorted(counts["reasons"].items(), key=lambda reason: -reason[1])
    listed = "; ".join(f"{count:,} {WORDS[name]}" for name, count in reasons if count)
    where = os.path.join(destination, dropped)
    return f"{said}, {lost:,} dropped ({100 * lost / chosen:.1f}%): {listed}. They are in {where}"


def dropped_many(counts: Dict[str, Any]) -> bool:
    """Whether so many pairs were dropped that the corpus may be another one."""
    return bool(counts["dropped"] > MANY * counts["chosen"])
