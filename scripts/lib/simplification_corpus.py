"""Fetched archives -> tokenised {train,valid,test}.tok.{source,target}, and the test's references.

WikiLarge is tokenised already. Training pairs with an empty side are left out. The references,
lines of sources.tsv whose split is ``reference``, go to reference.0, reference.1 and so on; without
any, the test set's own target is the only one.
"""

import logging
import pathlib
from typing import List, Sequence, Tuple

from fetch import Source, SourceError, read_sources
from parallel_text import pairs
from text_files import read_lines, write_lines

logger = logging.getLogger("simplification_corpus")
SPLITS = ("train", "valid", "test")


def split_pairs(
    split: str, sources: Sequence[Source], archives: pathlib.Path
) -> List[Tuple[str, str]]:
    """The pairs of one split, words between single blanks.

    Raises:
        SourceError: an archive cannot be read, or its sides are not equally long.
    """
    found = []
    for source in sources:
        if source.split == split:
            for left, right in pairs(source, archives):
                pair = (" ".join(left.split()), " ".join(right.split()))
                if all(pair) or split != "train":
                    found.append(pair)
    return found


def references(sources: Sequence[Source], archives: pathlib.Path, count: int) -> List[List[str]]:
    """Each reference file's sentences.

    Raises:
        SourceError: a file has not as many sentences as the test set.
    """
    found = []
    for source in sources:
        if source.split == "reference":
            lines = [" ".join(line.split()) for line in read_lines(archives / source.name)]
            if len(lines) != count:
                raise SourceError(f"{source.url}: {len(lines)} lines, the test set has {count}")
            found.append(lines)
    return found


def write(table: pathlib.Path, archives: pathlib.Path, out: pathlib.Path) -> None:
    """Write every split, and the references, out of what was fetched.

    Raises:
        SourceError: as :func:`split_pairs` and :func:`references`.
    """
    sources = read_sources(table)
    for split in SPLITS:
        found = split_pairs(split, sources, archives)
        for side, name in enumerate(("source", "target")):
            write_lines(out / f"{split}.tok.{name}", (pair[side] for pair in found))
        logger.info("%s: %d pairs", split, len(found))
    wanted = references(sources, archives, len(found))
    for number, lines in enumerate(wanted or [[pair[1] for pair in found]]):
        write_lines(out / f"reference.{number}", lines)
