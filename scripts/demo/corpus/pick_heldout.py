"""Choose the held-out sentences of the demo: licence known, no near duplicate in training text.

`ende` picks pairs of the test split; `edit` picks English sentences of LibreOffice help, which the
editing corpus does not hold, and injects errors into them. Both write the chosen text and
origins.tsv (origin, licence, count) to --out.
"""

import collections
import logging
import pathlib
from typing import Dict, List, Sequence

from program import Options, argument, command
from text_files import read_lines, write_lines

from .build_edit import VOCABULARY_SENTENCES
from .english import is_clean
from .errors import ErrorInjector, count_words, parse_misspellings
from .heldout import LICENCES, choose_english, choose_translations
from .splits import HELD_MAX_WORDS, HELD_MIN_WORDS, Row

logger = logging.getLogger("corpus")
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


def pick_ende(options: Options) -> None:
    """Write heldout.{en,de}."""
    origin: Dict[str, Row] = {row.source: row for row in read_rows(options.corpus)}
    test = [origin[source] for source in read_lines(options.corpus / "test.en")]
    chosen = choose_translations(test, read_lines(options.corpus / "train.en"), options.count)
    write_origins(options.out, [row.origin for row in chosen])
    write_lines(options.out / "heldout.en", (row.source for row in chosen))
    write_lines(options.out / "heldout.de", (row.target for row in chosen))


def pick_edit(options: Options) -> None:
    """Write heldout.{src,tgt}."""
    clean = read_lines(options.edit_corpus / "clean.en")
    dictionary = (options.edit_corpus / "misspellings.txt").read_text(encoding="utf-8")
    rows = [
        row
        for row in read_rows(options.corpus)
        if row.origin in EDIT_ORIGINS
        and HELD_MIN_WORDS <= len(row.source.split()) <= HELD_MAX_WORDS
        and is_clean(row.source)
    ]
    origin = {row.source: row.origin for row in rows}
    chosen = choose_english(origin, clean, options.count)
    vocabulary = count_words(clean[:VOCABULARY_SENTENCES])
    injector = ErrorInjector(parse_misspellings(dictionary), vocabulary, options.seed)
    write_origins(options.out, [origin[sentence] for sentence in chosen])
    write_lines(options.out / "heldout.src", map(injector.inject, chosen))
    write_lines(options.out / "heldout.tgt", chosen)


@command(
    argument("kind", choices=("ende", "edit")),
    argument("--corpus", type=pathlib.Path, required=True, help="folder that build_ende wrote"),
    argument("--edit-corpus", type=pathlib.Path, help="folder that build_edit wrote (for edit)"),
    argument("--out", type=pathlib.Path, required=True, help="folder to write to"),
    argument("--count", type=int, default=500, help="sentences to pick"),
    argument("--seed", type=int, default=3, help="of the injected errors"),
    errors=(KeyError,),
)
def main(options: Options) -> None:
    """Run the command."""
    if options.kind == "ende":
        pick_ende(options)
    elif options.edit_corpus is None:
        raise ValueError("edit needs --edit-corpus")
    else:
        pick_edit(options)
