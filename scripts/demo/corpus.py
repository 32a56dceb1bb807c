"""The demo's corpora: parallel text split by the hash of its English, and English with errors."""

import hashlib
import pathlib
import random
import re
from collections.abc import Sequence

from parallel_text import blanks, good_pair
from text_files import read_lines, write_lines

SPLITS = ("train", "valid", "test")
HELD = 2000  # sentences in valid and in test, at most
HELD_SHARE = 20  # and at most one in 20
HELD_WORDS = range(6, 51)  # held-out sentences are running text
SENTENCE = re.compile(r'["\'“(]?[A-Z][^{}\\|<>@=]*[.!?]["\'”)]?')
SENTENCE_WORDS = range(5, 61)


def digest(text: str) -> str:
    """A hash that orders sentences at random, but the same everywhere."""
    return hashlib.md5(text.encode("utf-8")).hexdigest()


def near_key(text: str) -> str:
    """What two near duplicates share: lower-case ASCII letters, word by word."""
    return re.sub(r"[^a-z]+", " ", text.lower()).strip()


def split(pairs: Sequence[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Splits that depend on the sentences, not on their order; of near duplicates one is kept.

    Raises:
        ValueError: there are too few sentences to hold any out.
    """
    ordered = sorted({near_key(pair[0]): pair for pair in pairs}.values(),
                     key=lambda pair: digest(pair[0]))  # fmt: skip
    fit = [pair for pair in ordered if len(pair[0].split()) in HELD_WORDS]
    held = min(HELD, len(ordered) // HELD_SHARE, len(fit) // 2)
    if not held:
        raise ValueError(f"only {len(ordered)} usable sentences; a corpus needs more")
    out = {"valid": fit[:held], "test": fit[held : 2 * held]}
    kept = {pair[0] for part in out.values() for pair in part}
    train = [pair for pair in ordered if pair[0] not in kept]
    random.Random(1).shuffle(train)
    return {"train": train, **out}


def write_pairs(
    pairs: Sequence[tuple[str, str]],
    sides: Sequence[str],
    out: pathlib.Path,
    held: pathlib.Path,
    count: int,
    origin: str,
) -> None:
    """Write SPLIT.SIDE in ``out``, and in ``held`` the first ``count`` pairs of the test split as
    heldout.SIDE, with their origin and number in origins.tsv."""
    splits = split(pairs)
    chosen = splits["test"][:count]
    write_lines(held / "origins.tsv", [f"{origin}\t{len(chosen)}"])
    for place, side in enumerate(sides):
        write_lines(held / f"heldout.{side}", (pair[place] for pair in chosen))
        for name in SPLITS:
            write_lines(out / f"{name}.{side}", (pair[place] for pair in splits[name]))


def write_parallel(
    english: pathlib.Path, german: pathlib.Path, out: pathlib.Path, held: pathlib.Path, count: int,
    origin: str,
) -> None:  # fmt: skip
    """Write the corpus of two files, line n of one translating line n of the other."""
    sides = [[blanks(line) for line in read_lines(path)] for path in (english, german)]
    ours, theirs = map(len, sides)
    if ours != theirs:
        raise ValueError(
            f"EN_FILE {english} has {ours} lines, DE_FILE {german} {theirs}: line n of one must "
            "translate line n of the other"
        )
    pairs = [pair for pair in zip(*sides) if good_pair(*pair) and pair[0] != pair[1]]
    write_pairs(pairs, ("en", "de"), out, held, count, origin)


def write_clean(text: pathlib.Path, out: pathlib.Path) -> None:
    """Write the lines that are English sentences, each once."""
    lines = dict.fromkeys(map(blanks, read_lines(text)))
    good = (line for line in lines if len(line.split()) in SENTENCE_WORDS)
    write_lines(out, (line for line in good if SENTENCE.fullmatch(line)))


def write_edits(prefix: pathlib.Path, out: pathlib.Path, held: pathlib.Path, count: int) -> None:
    """Write the corpus of ``prefix.src``, with errors, and ``prefix.tgt``, without."""
    clean, faulty = (read_lines(f"{prefix}.{side}") for side in ("tgt", "src"))
    pairs = list(zip(clean, faulty))
    write_pairs(pairs, ("tgt", "src"), out, held, count, "as the clean text")
