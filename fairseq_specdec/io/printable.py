"""Text of files in messages."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` with control characters, which a terminal would obey, as escapes (``\\x1b``)."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
