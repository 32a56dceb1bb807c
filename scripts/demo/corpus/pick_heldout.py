"""Choose the held-out sentences of the demo: licence known, no near duplicate in training text.

Beside the chosen text stands origins.tsv (origin, licence, count).
"""

import collections
import logging
import pathlib
from typing import Dict, List, Sequence

from text_files import read_lines, write_lines

from .build_edit import VOCABULARY_SENTENCES
from .english import is_clean
from .errors import ErrorInjector, count_words, parse_misspellings
from .heldout import LICENCES, choose_english, choose_translations
from .splits import HELD_MAX_WORDS, HELD_MIN_WORDS, Row

logger = logging.getLogger("corpus")
SEED = 3  # of the injected errors
# Editing sentences come from one origin whose text no editing model was trained on.
EDIT_ORIGINS = ("libreoffice-help", "own")


def read_rows(corpus: pathlib.Path) -> List[Row]:
    """All rows of a corpus that build_ende wrote."""
    rows = []
    for number, line in enumerate(read_lines(corpus / "origin.tsv"), 1):
        fields = line.split("\t")
        if len(fields) != 3:
            raise ValueError(f"{corpus}/origin.tsv, line {number}: 3 fields expected; rebuild it")
        rows.append(Row(*fields))
    return rows


def write_origins(out: pathlib.Path, origins: Sequence[str]) -> None:
    """Origin, licence and number of sentences."""
    counts = collections.Counter(origins)
    lines = [f"{origin}\t{LICENCES[origin]}\t{count}" for origin, count in counts.most_common()]
    write_lines(out / "origins.tsv", lines)
    logger.info("%s: %s", out, "; ".join(lines).replace("\t", " "))


def pick_ende(out: pathlib.Path, count: int, corpus: pathlib.Path) -> None:
    """Write heldout.{en,de}: pairs of the test split.

    Args:
        out: folder to write to.
        count: sentences to pick.
        corpus: folder that build_ende wrote.

    Raises:
        ValueError: there are too few.
    """
    origin: Dict[str, Row] = {row.source: row for row in read_rows(corpus)}
    test = [origin[source] for source in read_lines(corpus / "test.en")]
    chosen = choose_translations(test, read_lines(corpus / "train.en"), count)
    write_origins(out, [row.origin for row in chosen])
    write_lines(out / "heldout.en", (row.source for row in chosen))
    write_lines(out / "heldout.de", (row.target for row in chosen))


def pick_edit(
    out: pathlib.Path, count: int, corpus: pathlib.Path, edit_corpus: pathlib.Path
) -> None:
    """Write heldout.{src,tgt}: sentences that the corpus of build_edit does not hold, with errors.

    Raises:
        ValueError: there are too few.
    """
    clean = read_lines(edit_corpus / "clean.en")
    dictionary = (edit_corpus / "misspellings.txt").read_text(encoding="utf-8")
    origin = {
        row.source: row.origin
        for row in read_rows(corpus)
        if row.origin in EDIT_ORIGINS
        and HELD_MIN_WORDS <= len(row.source.split()) <= HELD_MAX_WORDS
        and is_clean(row.source)
    }
    chosen = choose_english(origin, clean, count)
    vocabulary = count_words(clean[:VOCABULARY_SENTENCES])
    injector = ErrorInjector(parse_misspellings(dictionary), vocabulary, SEED)
    write_origins(out, [origin[sentence] for sentence in chosen])
    write_lines(out / "heldout.src", map(injector.inject, chosen))
    write_lines(out / "heldout.tgt", chosen)
