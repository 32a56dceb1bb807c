"""Choose held-out sentences whose licence can be named, far from every training sentence."""

import collections
from typing import Dict, Iterable, List, Sequence, Set, Tuple

from .splits import Row, digest
from .text import near_key

# Origins whose packages state one licence for all their text, the preferred one first. Man pages,
# package descriptions and message catalogues mix the licences of hundreds of works.
LICENCES: Dict[str, str] = {
    "libreoffice-help": "MPL-2.0",
    "debian-reference": "GPL-2.0-or-later",
    "developers-reference": "GPL-2.0-or-later",
    "own": "that of the text you supplied",
}
MAX_TRIGRAM_OVERLAP = 0.8
Trigram = Tuple[str, ...]


def trigrams(sentence: str) -> Set[Trigram]:
    """Trigrams of the lower-case words; of a shorter sentence, all its words."""
    words = near_key(sentence).split()
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def too_close(candidates: Sequence[str], train: Iterable[str]) -> Set[int]:
    """Indices of candidates that share most of their trigrams with one training sentence."""
    index: Dict[Trigram, List[int]] = collections.defaultdict(list)
    sizes = []
    for number, sentence in enumerate(candidates):
        grams = trigrams(sentence)
        sizes.append(len(grams))
        for gram in grams:
            index[gram].append(number)
    close: Set[int] = set()
    for sentence in train:
        shared = collections.Counter(
            number for gram in trigrams(sentence) for number in index.get(gram, ())
        )
        close.update(n for n, c in shared.items() if c >= MAX_TRIGRAM_OVERLAP * sizes[n])
    return close


def choose_translations(test: Sequence[Row], train: Iterable[str], count: int) -> List[Row]:
    """`count` test rows in the order of the test set, from the preferred licences first.

    Args:
        test: the test split.
        train: English sides of the training split.
        count: rows wanted.

    Raises:
        ValueError: fewer rows qualify.
    """
    licensed = [row for row in test if row.origin in LICENCES]
    close = too_close([row.source for row in licensed], train)
    free = [row for number, row in enumerate(licensed) if number not in close]
    order = list(LICENCES)
    ranked = sorted(free, key=lambda row: (order.index(row.origin), digest(row.source)))
    if len(ranked) < count:
        raise ValueError(
            f"only {len(ranked)} of {count} held-out sentences have a named licence and no near "
            "duplicate in train; build the core tier of the corpus, or ask for fewer (--count)"
        )
    chosen = set(ranked[:count])
    return [row for row in test if row in chosen]


def choose_english(
    sentences: Iterable[str], train: Iterable[str], count: int, salt: str = "edit"
) -> List[str]:
    """`count` distinct sentences by salted hash, none a near duplicate of a training sentence.

    Raises:
        ValueError: fewer sentences qualify.
    """
    distinct = sorted({near_key(s): s for s in sentences}.values(), key=lambda s: digest(salt + s))
    # The filter reads all of train once; three times the wanted number is enough to choose from.
    pool = distinct[: 3 * count]
    close = too_close(pool, train)
    chosen = [sentence for number, sentence in enumerate(pool) if number not in close][:count]
    if len(chosen) < count:
        raise ValueError(f"only {len(chosen)} of {count} held-out sentences qualify (--count)")
    return chosen
