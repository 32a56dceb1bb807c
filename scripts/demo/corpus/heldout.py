"""Choose held-out sentences whose licence can be named, far from every training sentence.

Beside the chosen text stands origins.tsv (origin, licence, count).
"""

import collections
import logging
import pathlib
from collections.abc import Iterable, Sequence

from text_files import read_lines, write_lines

from .build_edit import VOCABULARY_SENTENCES
from .english import is_clean
from .errors import ErrorInjector, count_words, parse_misspellings
from .splits import HELD_MAX_WORDS, HELD_MIN_WORDS, Row, digest
from .text import near_key

logger = logging.getLogger("corpus")

# Origins whose packages state one licence for all their text, the preferred one first. Man pages,
# package descriptions and message catalogues mix the licences of hundreds of works.
LICENCES: dict[str, str] = {
    "libreoffice-help": "MPL-2.0",
    "debian-reference": "GPL-2.0-or-later",
    "developers-reference": "GPL-2.0-or-later",
    "own": "that of the text you supplied",
}
MAX_TRIGRAM_OVERLAP = 0.8
SEED = 3  # of the injected errors
# Editing sentences come from one origin whose text no editing model was trained on.
EDIT_ORIGINS = ("libreoffice-help", "own")
Trigram = tuple[str, ...]


def trigrams(sentence: str) -> set[Trigram]:
    """Trigrams of the lower-case words; of a shorter sentence, all its words."""
    words = near_key(sentence).split()
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def too_close(candidates: Sequence[str], train: Iterable[str]) -> set[int]:
    """Indices of candidates that share most of their trigrams with one training sentence."""
    index: dict[Trigram, list[int]] = collections.defaultdict(list)
    sizes = []
    for number, sentence in enumerate(candidates):
        grams = trigrams(sentence)
        sizes.append(len(grams))
        for gram in grams:
            index[gram].append(number)
    close: set[int] = set()
    for sentence in train:
        shared = collections.Counter(
            number for gram in trigrams(sentence) for number in index.get(gram, ())
        )
        close.update(n for n, c in shared.items() if c >= MAX_TRIGRAM_OVERLAP * sizes[n])
    return close


def choose_translations(test: Sequence[Row], train: Iterable[str], count: int) -> list[Row]:
    """`count` test rows in the order of the test set, from the preferred licences first."""
    licensed = [row for row in test if row.origin in LICENCES]
    close = too_close([row.source for row in licensed], train)
    free = [row for number, row in enumerate(licensed) if number not in close]
    order = list(LICENCES)
    ranked = sorted(free, key=lambda row: (order.index(row.origin), digest(row.source)))
    if len(ranked) < count:
        raise ValueError(
            f"only {len(ranked)} of {count} held-out sentences have a named licence and no near "
            "duplicate in train; build the core tier of the corpus, or ask for fewer (HELDOUT)"
        )
    chosen = set(ranked[:count])
    return [row for row in test if row in chosen]


def choose_english(
    sentences: Iterable[str], train: Iterable[str], count: int, salt: str = "edit"
) -> list[str]:
    """`count` distinct sentences by salted hash, none a near duplicate of a training sentence."""
    distinct = sorted({near_key(s): s for s in sentences}.values(), key=lambda s: digest(salt + s))
    # The filter reads all of train once; three times the wanted number is enough to choose from.
    pool = distinct[: 3 * count]
    close = too_close(pool, train)
    chosen = [sentence for number, sentence in enumerate(pool) if number not in close][:count]
    if len(chosen) < count:
        raise ValueError(f"only {len(chosen)} of {count} held-out sentences qualify (HELDOUT)")
    return chosen


def read_rows(corpus: pathlib.Path) -> list[Row]:
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
    """Write heldout.{en,de}: pairs of the test split."""
    origin: dict[str, Row] = {row.source: row for row in read_rows(corpus)}
    test = [origin[source] for source in read_lines(corpus / "test.en")]
    chosen = choose_translations(test, read_lines(corpus / "train.en"), count)
    write_origins(out, [row.origin for row in chosen])
    write_lines(out / "heldout.en", (row.source for row in chosen))
    write_lines(out / "heldout.de", (row.target for row in chosen))


def pick_edit(
    out: pathlib.Path, count: int, corpus: pathlib.Path, edit_corpus: pathlib.Path
) -> None:
    """Write heldout.{src,tgt}: faulty sentences that the corpus of build_edit does not hold."""
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
