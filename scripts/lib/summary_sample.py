"""A small real summarisation corpus: {train,valid,test}.{source,target}, a text a line.

Docstrings of Python's own library; what follows the first line is summarised by it. Nothing is
fetched.
"""

import ast
import hashlib
import logging
import pathlib
import re
import sysconfig
from typing import Dict, Iterable, Iterator, List, Sequence, Tuple

from corpus.text import normalise
from text_files import write_lines

logger = logging.getLogger("summary_sample")
LEFT_OUT = ("test", "tests", "idlelib", "site-packages", "dist-packages", "lib2to3")
SUMMARY_WORDS = (3, 25)
MIN_WORDS = 15
OPENING = 25  # words: texts that begin alike are near copies

Pair = Tuple[str, str]


def docstring_pairs(source: str) -> Iterator[Pair]:
    """What follows the first paragraph of each docstring in a Python file, and that paragraph.

    A first paragraph of several lines is no summary line (PEP 257) and is left out.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
            if first.strip() and "\n" not in first.strip():
                yield normalise(rest), normalise(first)


def library_pairs(folder: pathlib.Path) -> Iterator[Pair]:
    """The pairs of all files of Python's library that parse."""
    for path in sorted(folder.rglob("*.py")):
        if not set(path.relative_to(folder).parts) & set(LEFT_OUT):
            try:
                yield from docstring_pairs(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError, ValueError):
                logger.info("%s: left out, does not parse", path)


def clean(pairs: Iterable[Pair], max_words: int) -> List[Pair]:
    """Pairs of fitting length, each summary and each opening once."""
    kept: List[Pair] = []
    seen = set()
    for text, summary in pairs:
        words, short = text.split(), summary.split()
        if not MIN_WORDS <= len(words) <= max_words:
            continue
        if not SUMMARY_WORDS[0] <= len(short) <= SUMMARY_WORDS[1]:
            continue
        keys = {" ".join(re.findall(r"[a-z]+", " ".join(words[:OPENING]).lower())), summary.lower()}
        if not keys & seen:
            seen |= keys
            kept.append((text, summary))
    return kept


def split(pairs: Sequence[Pair], count: int) -> Dict[str, List[Pair]]:
    """At most ``count`` pairs in an order that depends on their text alone; a tenth of them each
    for validation and test.

    Raises:
        ValueError: there are fewer than 30.
    """
    if len(pairs) < 30:
        raise ValueError(f"only {len(pairs)} pairs were found: give SAMPLE=PREFIX of your own")
    ordered = sorted(pairs, key=lambda pair: hashlib.md5(pair[0].encode("utf-8")).hexdigest())
    ordered = ordered[:count]
    part = len(ordered) // 10
    return {
        "test": ordered[:part], "valid": ordered[part : 2 * part], "train": ordered[2 * part :],
    }  # fmt: skip


def write(out: pathlib.Path, count: int = 1000, max_words: int = 120) -> None:
    """Write at most ``count`` pairs, of texts of at most ``max_words`` words.

    Raises:
        ValueError: as :func:`split`.
    """
    found = library_pairs(pathlib.Path(sysconfig.get_paths()["stdlib"]))
    parts = split(clean(found, max_words), count)
    for name, pairs in parts.items():
        for side, suffix in enumerate(("source", "target")):
            write_lines(out / f"{name}.{suffix}", (pair[side] for pair in pairs))
    logger.info("%s", ", ".join(f"{name}: {len(pairs)} pairs" for name, pairs in parts.items()))
