"""Clean text -> pairs of faulty and clean sentences, to pretrain error correction on.

``python scripts/lib/noise.py clean.txt --dest PREFIX`` writes PREFIX.src (with errors) and
PREFIX.tgt (clean), a sentence a line, after Grundkiewicz, Junczys-Dowmunt and Heafield (BEA 2019,
section 3), as Ge et al. (2022, section 4.1.1) pretrain: a share of a sentence's words, drawn from a
normal distribution, is substituted from confusion sets, deleted, followed by a random word, or
swapped with a neighbour; some words get the same operations on their characters.

A line's errors depend on --seed and on its number, not on the number of processes (--workers).
"""

import argparse
import functools
import itertools
import logging
import multiprocessing
import os
import random
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from text_files import each_line

from fairseq_specdec.commands.own import brief, command_parser, log_to_stderr, reporting
from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.flag_values import AT_LEAST_1, SHARE, Range, add_flag

logger = logging.getLogger("noise")
PROGRAM = "noise.py"
CHUNK = 500  # lines that a process noises at once
AHEAD = 20  # chunks for each process that are read at once
IGNORED = (signal.SIGINT, signal.SIG_IGN)  # in the processes: Ctrl-C is for their parent
# What may happen to a word, with its weight in the paper: another word of its confusion set, none,
# a random word after it, or it is exchanged with the next.
OPERATIONS = {"substitute": 0.7, "delete": 0.1, "insert": 0.1, "swap": 0.1}
# A word between the punctuation that may be attached to it in raw text.
WORD = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)
DISTANCE = 2  # edits between a word and what the spell checker proposes
DICTIONARY = "frequency_dictionary_en_82_765.txt"  # of symspellpy


class Confusions:
    """Words that a word may be confused with. ``vocabulary``: words to insert; ``letters``:
    characters to insert or substitute."""

    def __init__(self, sets: dict[str, Sequence[str]], words: Iterable[str]) -> None:
        self.sets, self.vocabulary = sets, sorted(words)
        self.letters = sorted({c for word in self.vocabulary for c in word if c.isalpha()})

    def candidates(self, word: str) -> Sequence[str]:
        """Words that a lower-case word may be confused with; none if it is not known."""
        return self.sets.get(word, ())


class SpellChecker(Confusions):
    """English confusion sets: what symspellpy proposes and what sounds the same, the ``size`` best
    by the mean of the edit distances of spelling and of phonetic code."""

    def __init__(self, size: int) -> None:
        try:
            import jellyfish
            import symspellpy
        except ImportError as error:
            raise ValueError(
                f"confusion sets need {error.name}: pip install jellyfish symspellpy, "
                "or give your own by --confusion-sets FILE"
            ) from error
        self._size, self._speller = size, symspellpy.SymSpell(DISTANCE)
        path = os.path.join(os.path.dirname(symspellpy.__file__), DICTIONARY)
        self._speller.load_dictionary(path, 0, 1, encoding="utf-8-sig")
        super().__init__({}, self._speller.words)
        self._all, self._away = symspellpy.Verbosity.ALL, jellyfish.levenshtein_distance
        self._sound = {word: jellyfish.metaphone(word) for word in self.vocabulary}
        self._by_sound: dict[str, list[str]] = {}
        for word, sound in self._sound.items():
            self._by_sound.setdefault(sound, []).append(word)

    def candidates(self, word: str) -> Sequence[str]:
        if word not in self._sound:
            return ()  # a name, a number or a word of another language
        if word not in self.sets:
            sound = self._sound[word]

            def distance(other: str) -> tuple[int, int, str]:
                away = self._away(word, other) + self._away(sound, self._sound[other])
                return away, -self._speller.words[other], other

            near = {each.term for each in self._speller.lookup(word, self._all, DISTANCE)}
            others = (near | set(self._by_sound[sound])) - {word}
            self.sets[word] = tuple(sorted(others, key=distance)[: self._size])
        return self.sets[word]


@functools.cache
def confusions_of(path: str, size: int) -> Confusions:
    """Those of a file (--confusion-sets), or the spell checker's, once in each process."""
    if not path:
        return SpellChecker(size)
    sets = {}
    for number, line in enumerate(each_line(path), 1):
        word, *others = list(filter(None, line.removeprefix("\ufeff").split("\t"))) or [""]
        if word and not others:
            raise ValueError(
                f"--confusion-sets: {path}, line {number}: expected a word, a tab and what it may "
                "be confused with"
            )
        if word:
            sets[word] = tuple(others)
    return Confusions(sets, {*sets, *(word for words in sets.values() for word in words)})


def like_case(old: str, new: str) -> str:
    """``new`` with a capital if ``old`` has one."""
    return new.capitalize() if old[:1].isupper() and new else new


class Noise:
    """Errors of one line.

    Args:
        args: the command's flags on errors, and ``seed``.
        number: of the line in the whole corpus, from 0.
    """

    def __init__(self, args: Any, number: int, confusions: Confusions) -> None:
        self.args, self.confusions = args, confusions
        # A text seeds by SHA-512: neighbouring lines and seeds share nothing.
        self.random = random.Random(f"{args.seed}:{number}")

    def changes(self, places: Sequence[int], least: int = 0) -> list[tuple[int, str]]:
        """Some of the places, in increasing order, and an operation for each: p * len(places) of
        them with p ~ N(mean, deviation), clipped, and at least ``least``."""
        share = self.random.gauss(self.args.error_mean, self.args.error_deviation)
        count = min(max(round(share * len(places)), least), len(places))
        chosen = sorted(self.random.sample(places, count))
        operations = self.random.choices([*OPERATIONS], [*OPERATIONS.values()], k=count)
        return list(zip(chosen, operations))

    def misspelled(self, word: str) -> str:
        """The word with at least one operation on its characters; never empty."""
        slots, letters = list(word), self.confusions.letters
        for place, operation in self.changes(range(len(word)), 1):
            if operation == "swap":
                _swap(slots, place)
            elif operation == "delete":
                slots[place] = "" if len(word) > 1 else word
            elif letters and operation == "substitute":
                slots[place] = like_case(word[place], self.random.choice(letters))
            elif letters:
                slots[place] += self.random.choice(letters)
        return "".join(slots) or word

    def faulty(self, line: str) -> str:
        """The line with errors; it may come back unchanged, and is empty only if the line is."""
        tokens = line.split()
        parts = [_parts(token) for token in tokens]
        slots = [[token] for token in tokens]
        for place, operation in self.changes([i for i, part in enumerate(parts) if part[1]]):
            if operation == "swap":
                _swap(slots, place)
            else:
                slots[place] = self._changed(slots[place], parts[place], operation)
        faulty = [token for slot in slots for token in slot]
        for place, (before, word, after) in enumerate(map(_parts, faulty)):
            if word and self.random.random() < self.args.spelling:
                faulty[place] = before + self.misspelled(word) + after
        return " ".join(faulty) or " ".join(tokens)

    def _changed(self, slot: list[str], parts: Sequence[str], operation: str) -> list[str]:
        """The tokens of a place after an operation on its word."""
        before, word, after = parts
        if operation == "delete":
            return [before + after] if before + after else []
        if operation == "insert":
            new = self.confusions.vocabulary
            return [*slot, self.random.choice(new)] if new else slot
        others = self.confusions.candidates(word.lower())
        if not others:
            return slot
        chosen, upper = self.random.choice(others), len(word) > 1 and word.isupper()
        return [before + (chosen.upper() if upper else like_case(word, chosen)) + after]


def _parts(token: str) -> tuple[str, ...]:
    """The punctuation before a word, the word, and the punctuation after it; no word where there is
    no letter."""
    before, word, after = WORD.fullmatch(token).groups()  # type: ignore[union-attr]
    return (before, word, after) if any(map(str.isalpha, word)) else (token, "", "")


def _swap(slots: list[Any], place: int) -> None:
    """Exchange an item and its right neighbour (the last one: its left neighbour)."""
    other = place + 1 if place + 1 < len(slots) else place - 1
    if other >= 0:
        slots[place], slots[other] = slots[other], slots[place]


def get_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = command_parser(PROGRAM, __doc__, formatter_class=raw)
    add = functools.partial(add_flag, parser)
    parser.add_argument("input", help="clean text in UTF-8, one sentence a line, best tokenised")
    add("--dest", "of the files, without .src and .tgt", metavar="PREFIX", required=True)
    add("--seed", "of the errors, a whole number", default=1, type=int)
    add("--workers", "processes that share the work", AT_LEAST_1, 1)
    noise = parser.add_argument_group("Errors (defaults: Grundkiewicz et al. 2019)")
    add = functools.partial(add_flag, noise, metavar="P")
    add("--error-mean", "mean share of a sentence's words that change", SHARE, 0.15)
    add("--error-deviation", "its standard deviation", Range(0, below=True), 0.2)
    add("--spelling", "probability that a word is misspelled", SHARE, 0.1)
    add_flag(noise, "--confusions", "words in a set", AT_LEAST_1, 20)
    add("--confusion-sets", "lines of a word and, between tabs, what it may be confused with, for "
        "other languages", default="", metavar="FILE",
        otherwise="those of the English spell checker")  # fmt: skip
    return parser


def noised(args: argparse.Namespace, chunk: Sequence[tuple[int, str]]) -> list[tuple[str, str]]:
    """Faulty and clean side of numbered lines."""
    confusions = confusions_of(args.confusion_sets, args.confusions)
    clean = [(number, " ".join(line.split())) for number, line in chunk]
    return [(Noise(args, number, confusions).faulty(line), line) for number, line in clean]


def made(args: argparse.Namespace) -> Iterator[list[tuple[str, str]]]:
    """The pairs of each chunk, in order."""
    lines, work = enumerate(each_line(args.input)), functools.partial(noised, args)
    work([])  # what is wrong with the confusions is found here, not in a process
    chunks = iter(lambda: list(itertools.islice(lines, CHUNK)), [])
    with multiprocessing.Pool(args.workers, signal.signal, IGNORED) as pool:
        while some := list(itertools.islice(chunks, AHEAD * args.workers)):
            yield from pool.map(work, some, chunksize=1)


def main(args: argparse.Namespace) -> None:
    """Make the corpus; lines without a word are left out."""
    pairs = changed = 0
    with (
        replacing(f"{args.dest}.src", make_folder=True) as faulty_file,
        replacing(f"{args.dest}.tgt") as clean_file,
    ):
        for faulty, clean in itertools.chain.from_iterable(made(args)):
            if clean:
                pairs, changed = pairs + 1, changed + (faulty != clean)
                faulty_file.write(faulty + "\n")
                clean_file.write(clean + "\n")
        if not pairs:
            raise ValueError(f"input: {args.input} is empty")
    logger.info("%s: %d pairs, %d with errors", args.dest, pairs, changed)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    log_to_stderr("%(asctime)s | %(levelname)s | %(name)s | %(message)s")
    with reporting(PROGRAM, arguments) as words:
        args = brief(get_parser()).parse_args(words)
        try:
            main(args)
        except (OSError, ValueError) as error:
            raise SystemExit(f"{PROGRAM}: error: {error}") from error


if __name__ == "__main__":
    cli_main()
