"""Train, validation and test splits that depend on the sentences alone, not on their order."""

import hashlib
import random
from collections.abc import Sequence
from typing import NamedTuple

from .text import Pair, near_key

SPLITS = ("train", "valid", "test")
# Held-out sentences are running text of this many words.
HELD_MIN_WORDS, HELD_MAX_WORDS = 6, 50
# Messages of user interfaces are often fragments, so none of them is held out.
FRAGMENT_ORIGINS = frozenset(("gettext", "mozilla"))


class Row(NamedTuple):
    """One sentence pair and where it comes from."""

    origin: str
    source: str
    target: str


def digest(text: str) -> str:
    """A hash that orders sentences at random, but the same everywhere."""
    return hashlib.md5(text.encode("utf-8")).hexdigest()


def split_rows(rows: Sequence[Row], held: int, seed: int = 1) -> dict[str, list[Row]]:
    """Hold out `held` validation and `held` test rows; near duplicates of them leave train.

    Args:
        rows: pairs with distinct sources.
        held: rows in each of valid and test.
        seed: of the order of train.
    """
    candidates = sorted(
        (digest(row.source), row)
        for row in rows
        if row.origin not in FRAGMENT_ORIGINS
        and HELD_MIN_WORDS <= len(row.source.split()) <= HELD_MAX_WORDS
    )
    chosen: list[Row] = []
    keys: set[str] = set()
    for _, row in candidates:
        key = near_key(row.source)
        if len(chosen) < 2 * held and key not in keys:
            keys.add(key)
            chosen.append(row)
    train = [row for row in rows if near_key(row.source) not in keys]
    random.Random(seed).shuffle(train)
    return {"train": train, "valid": chosen[:held], "test": chosen[held:]}


def split_edits(pairs: Sequence[Pair], held: int, seed: int = 2) -> dict[str, list[Pair]]:
    """Splits of `(faulty, clean)` pairs by the hash of the clean side."""
    ordered = sorted(pairs, key=lambda pair: digest(pair[1]))
    fit = [pair for pair in ordered if HELD_MIN_WORDS <= len(pair[1].split()) <= HELD_MAX_WORDS]
    chosen = fit[: 2 * held]
    targets = {target for _, target in chosen}
    train = [pair for pair in ordered if pair[1] not in targets]
    random.Random(seed).shuffle(train)
    return {"train": train, "valid": chosen[:held], "test": chosen[held:]}
