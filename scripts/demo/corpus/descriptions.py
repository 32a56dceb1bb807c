"""Debian package descriptions and their translations, from apt's own Translation-* indexes."""

import pathlib
import re
from collections.abc import Callable

from .text import Pair, align_paragraphs, normalise

Description = tuple[str, list[str]]  # synopsis, lines of the long description
Paragraph = tuple[str, str]  # kind ("p", "item" or "verb") and text
ReadIndex = Callable[[pathlib.Path], str]
ITEM = re.compile(r"^  ?\s*([*+o•-]|\d+[.)])\s+")


def parse_index(text: str, language: str) -> dict[str, Description]:
    """Descriptions of one index by the md5 that joins translations to their originals."""
    descriptions: dict[str, Description] = {}
    for block in text.split("\n\n"):
        md5 = re.search(r"^Description-md5: (\w+)", block, re.M)
        body = re.search(rf"^Description-{language}: (.*(?:\n .*)*)", block, re.M)
        if md5 and body:
            lines = body.group(1).split("\n")
            descriptions.setdefault(md5.group(1), (lines[0], lines[1:]))
    return descriptions


def load(lists: pathlib.Path, language: str, read: ReadIndex) -> dict[str, Description]:
    """All descriptions in one language; where suites differ, the first by name wins."""
    descriptions: dict[str, Description] = {}
    pattern = "*Translation-en*" if language == "en" else f"*Translation-{language}*"
    for path in sorted(lists.glob(pattern)):
        for md5, description in parse_index(read(path), language).items():
            descriptions.setdefault(md5, description)
    return descriptions


def paragraphs(lines: list[str]) -> list[Paragraph]:
    """Paragraphs of a long description; items and verbatim lines (two blanks) stay apart."""
    out: list[Paragraph] = []
    current: list[str] = []
    kind: str | None = None

    def flush() -> None:
        nonlocal current, kind
        if current:
            out.append((kind or "p", " ".join(line.strip() for line in current)))
        current, kind = [], None

    for line in lines:
        item = ITEM.match(line)
        if line.strip() in (".", ""):
            flush()
        elif item:
            flush()
            kind, current = "item", [line[item.end() :]]
        elif line.startswith("  ") and kind == "item":
            current.append(line)
        elif line.startswith("  "):
            flush()
            kind, current = "verb", [line]
            flush()
        else:
            if kind == "item":
                flush()
            kind = kind or "p"
            current.append(line)
    flush()
    return out


def collect(lists: pathlib.Path, language: str, read: ReadIndex) -> list[Pair]:
    """Synopses, and long descriptions whose paragraphs are of the same kinds in both languages."""
    english, other = load(lists, "en", read), load(lists, language, read)
    pairs: list[Pair] = []
    for md5, (synopsis, lines) in other.items():
        if md5 not in english:
            continue
        pairs.append((english[md5][0], synopsis))
        ours, theirs = paragraphs(english[md5][1]), paragraphs(lines)
        if [kind for kind, _ in ours] == [kind for kind, _ in theirs]:
            for (_, a), (_, b) in zip(ours, theirs):
                pairs += align_paragraphs(normalise(a), normalise(b))
    return pairs
