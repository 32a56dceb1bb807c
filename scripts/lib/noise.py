"""Clean text -> pairs of faulty and clean sentences, to pretrain error correction on.

``python scripts/lib/noise.py clean.txt --dest OUT`` writes OUT/train.src (with errors) and
OUT/train.tgt (clean), a sentence a line, after Grundkiewicz, Junczys-Dowmunt and Heafield (BEA
2019, section 3), as Ge et al. (2022, section 4.1.1) pretrain: a share of a sentence's words, drawn
from a normal distribution, is substituted from confusion sets, deleted, followed by a random word,
or swapped with a neighbour; some words get the same operations on their characters.

A line's errors depend on --seed and on its number alone, not on the number of processes
(--workers). OUT/noise.json, which comes last, records how the pairs were made.
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
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from fairseq_specdec.commands.own import brief, command_parser, log_to_stderr, reporting
from fairseq_specdec.io.atomic import replacing, write_json
from fairseq_specdec.io.flag_values import AT_LEAST_1, SHARE, Range, add_flag
from fairseq_specdec.io.provenance import sha256

logger = logging.getLogger("noise")
PROGRAM, REPORT = "noise.py", "noise.json"
CHUNK = 500  # lines that a process noises at once
AHEAD = 20  # chunks for each process that are read at once
# What may happen to a word: its weight in the paper, and its description.
OPERATIONS = {
    "substitute": (0.7, "another word of its confusion set"),
    "delete": (0.1, "the word left out"),
    "insert": (0.1, "a random word after it"),
    "swap": (0.1, "the word exchanged with the next"),
}
# A word between the punctuation that may be attached to it in raw text.
WORD = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)
DISTANCE = 2  # edits between a word and what the spell checker proposes
DICTIONARY = "frequency_dictionary_en_82_765.txt"  # of symspellpy


# ---- confusion sets ------------------------------------------------------------------------------


class Confusions:
    """Words that a word may be confused with. ``vocabulary``: words to insert; ``letters``:
    characters to insert or substitute."""

    def __init__(self, sets: dict[str, Sequence[str]]) -> None:
        self.sets = sets
        self._set_words({*sets, *(word for words in sets.values() for word in words)})

    def _set_words(self, words: Any) -> None:
        self.vocabulary = sorted(words)
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
                f"confusion sets need {error.name}: "
                "pip install -r scripts/requirements/gec.txt, or give "
                "your own by --confusion-sets FILE"
            ) from error
        self._size, self._speller = size, symspellpy.SymSpell(DISTANCE)
        path = os.path.join(os.path.dirname(symspellpy.__file__), DICTIONARY)
        self._speller.load_dictionary(path, 0, 1, encoding="utf-8-sig")
        self._set_words(self._speller.words)
        self.sets, self._all = {}, symspellpy.Verbosity.ALL
        self._away = jellyfish.levenshtein_distance
        self._sound = {word: jellyfish.metaphone(word) for word in self.vocabulary}
        self._by_sound: dict[str, list[str]] = {}
        for word, sound in self._sound.items():
            self._by_sound.setdefault(sound, []).append(word)

    def candidates(self, word: str) -> Sequence[str]:
        if word not in self._sound:
            return ()  # a name, a number or a word of another language
        if word not in self.sets:
            sound = self._sound[word]
            near = {each.term for each in self._speller.lookup(word, self._all, DISTANCE)}
            ranked = sorted(
                (self._away(word, other) + self._away(sound, self._sound[other]),
                 -self._speller.words[other], other)
                for other in (near | set(self._by_sound[sound])) - {word}
            )  # fmt: skip
            self.sets[word] = tuple(other for _, _, other in ranked[: self._size])
        return self.sets[word]


def confusions_of(args: argparse.Namespace) -> Confusions:
    """Those of --confusion-sets, or the spell checker's."""
    path, sets = args.confusion_sets, {}
    if not path:
        return SpellChecker(args.confusions)
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as stream:
            lines = [line.rstrip("\r\n").split("\t") for line in stream]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8; convert it") from error
    for number, fields in enumerate(lines, 1):
        words = list(filter(None, fields))
        if len(words) == 1:
            raise ValueError(
                f"--confusion-sets: {path}, line {number}: expected a word, a tab and what it may "
                "be confused with"
            )
        if words:
            sets[words[0]] = tuple(words[1:])
    return Confusions(sets)


# ---- errors --------------------------------------------------------------------------------------


def like_case(old: str, new: str) -> str:
    """``new`` with a capital if ``old`` has one."""
    return new.capitalize() if old[:1].isupper() and new else new


class Noise:
    """Errors of one line. All draws are of ``random.Random.random``, whose sequence does not change
    between releases of Python.

    Args:
        args: the command's flags on errors: shares, weights and ``seed``.
        number: of the line in the whole corpus, from 0.
    """

    def __init__(self, args: Any, number: int, confusions: Confusions) -> None:
        self.args, self.confusions = args, confusions
        # A text seeds by SHA-512: neighbouring lines and seeds share nothing.
        self.draw = random.Random(f"{args.seed}:{number}").random

    def pick(self, items: Sequence[Any]) -> Any:
        return items[int(self.draw() * len(items))]

    def operation(self) -> str:
        """One of OPERATIONS, by their weights."""
        weights = [getattr(self.args, name) for name in OPERATIONS]
        left = self.draw() * sum(weights)
        for name, weight in zip(OPERATIONS, weights):
            left -= weight
            if left < 0:
                return name
        return max(zip(weights, OPERATIONS))[1]  # by rounding the weights may sum to less

    def count(self, size: int) -> int:
        """How many of ``size`` items change: p * size with p ~ N(mean, deviation), clipped."""
        uniform, share = self.draw(), self.args.error_mean
        if self.args.error_deviation > 0 and uniform > 0:
            normal = statistics.NormalDist(share, self.args.error_deviation)
            share = normal.inv_cdf(uniform)
        return min(max(round(share * size), 0), size)

    def places(self, candidates: Sequence[int], count: int) -> list[int]:
        """``count`` different items of ``candidates``, in increasing order."""
        left = list(candidates)
        return sorted(left.pop(int(self.draw() * len(left))) for _ in range(min(count, len(left))))

    def misspelled(self, word: str) -> str:
        """The word with at least one operation on its characters; never empty."""
        slots, letters = list(word), self.confusions.letters
        count = max(self.count(len(word)), 1)
        for place in self.places(range(len(word)), count):
            operation = self.operation()
            if operation == "swap":
                _swap(slots, place)
            elif operation == "delete":
                slots[place] = "" if len(word) > 1 else word
            elif letters and operation == "substitute":
                slots[place] = like_case(word[place], self.pick(letters))
            elif letters:
                slots[place] += self.pick(letters)
        return "".join(slots) or word

    def faulty(self, line: str) -> str:
        """The line with errors; it may come back unchanged, and is empty only if the line is."""
        tokens = line.split()
        parts = [_parts(token) for token in tokens]
        words = [i for i, (_, word, _) in enumerate(parts) if any(map(str.isalpha, word))]
        slots = [[token] for token in tokens]
        for place in self.places(words, self.count(len(words))):
            operation = self.operation()
            if operation == "swap":
                _swap(slots, place)
            else:
                slots[place] = self._changed(slots[place], parts[place], operation)
        faulty = [token for slot in slots for token in slot]
        for place, token in enumerate(faulty):
            before, word, after = _parts(token)
            if any(map(str.isalpha, word)) and self.draw() < self.args.spelling:
                faulty[place] = before + self.misspelled(word) + after
        return " ".join(faulty) or " ".join(tokens)

    def _changed(self, slot: list[str], parts: tuple[str, ...], operation: str) -> list[str]:
        """The tokens of a place after an operation on its word."""
        before, word, after = parts
        if operation == "delete":
            return [before + after] if before + after else []
        if operation == "insert":
            new = self.confusions.vocabulary
            return [*slot, self.pick(new)] if new else slot
        others = self.confusions.candidates(word.lower())
        if not others:
            return slot
        new = self.pick(others)
        upper = len(word) > 1 and word.isupper()
        return [before + (new.upper() if upper else like_case(word, new)) + after]


def _parts(token: str) -> tuple[str, ...]:
    """The punctuation before a word, the word, and the punctuation after it."""
    return WORD.fullmatch(token).groups()  # type: ignore[union-attr]


def _swap(slots: list[Any], place: int) -> None:
    """Exchange an item and its right neighbour (the last one: its left neighbour)."""
    other = place + 1 if place + 1 < len(slots) else place - 1
    if other >= 0:
        slots[place], slots[other] = slots[other], slots[place]


# ---- the command ---------------------------------------------------------------------------------


def get_parser() -> argparse.ArgumentParser:
    raw, finite = argparse.RawDescriptionHelpFormatter, Range(0, below=True)
    parser = command_parser(PROGRAM, __doc__, formatter_class=raw)
    add = functools.partial(add_flag, parser)
    parser.add_argument("input", help="clean text in UTF-8, one sentence a line, best tokenised")
    add("--dest", "directory of the pairs", metavar="DIR", required=True)
    add("--name", "of the files in DIR, without .src and .tgt", default="train", metavar="NAME")
    add("--seed", "of the errors, a whole number", default=1, type=int)
    add("--workers", "processes that share the work", AT_LEAST_1, 1)
    add("--overwrite", "replace the pairs of an earlier run", default=False)
    noise = parser.add_argument_group("Errors (defaults: Grundkiewicz et al. 2019)")
    add = functools.partial(add_flag, noise, metavar="P")
    add("--error-mean", "mean share of a sentence's words that change", SHARE, 0.15)
    add("--error-deviation", "its standard deviation", finite, 0.2)
    for name, (weight, text) in OPERATIONS.items():
        add(f"--{name}", f"weight of {text}", finite, weight)
    add("--spelling", "probability that a word is misspelled", SHARE, 0.1)
    add_flag(noise, "--confusions", "words in a set", AT_LEAST_1, 20)
    add("--confusion-sets", "lines of a word and, between tabs, what it may be confused with, for "
        "other languages", default="", metavar="FILE",
        otherwise="those of the English spell checker")  # fmt: skip
    return parser


def check(args: argparse.Namespace) -> list[str]:
    """Refuse what cannot be honoured. Returns the paths of both sides and of the report."""
    if not sum(getattr(args, name) for name in OPERATIONS) > 0:
        raise ValueError("--substitute, --delete, --insert and --swap are all 0: one must be more")
    for flag, path in (("input", args.input), ("--confusion-sets", args.confusion_sets)):
        if path and not os.path.isfile(path):
            raise ValueError(f"{flag}: {path} is no file")
    if not os.path.getsize(args.input):
        raise ValueError(f"input: {args.input} is empty")
    if not args.name or os.path.basename(args.name) != args.name:
        raise ValueError(f"--name {args.name!r}: expected a part of a file name")
    names = (f"{args.name}.src", f"{args.name}.tgt", REPORT)
    paths = [os.path.join(args.dest, name) for name in names]
    there = [path for path in paths if os.path.exists(path)]
    if there and not args.overwrite:
        raise ValueError(f"--dest: {there[0]} exists; choose another, or give --overwrite")
    return paths


class Worker:
    """Makes the pairs of a chunk: (number, line) pairs -> (faulty, clean) pairs."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.confusions = args, confusions_of(args)

    def __call__(self, chunk: Sequence[tuple[int, bytes]]) -> list[tuple[str, str]]:
        pairs = []
        for number, line in chunk:
            try:
                clean = " ".join(line.decode("utf-8").split())
            except UnicodeDecodeError as error:
                where = f"{self.args.input}, line {number + 1}"
                raise ValueError(f"{where}: is not UTF-8; convert it") from error
            pairs.append((Noise(self.args, number, self.confusions).faulty(clean), clean))
        return pairs


def _chunks(path: str) -> Iterator[list[tuple[int, bytes]]]:
    """The lines of a file and their numbers from 0; only a line feed ends a line."""
    with open(path, "rb") as stream:
        lines = enumerate(stream)
        while chunk := list(itertools.islice(lines, CHUNK)):
            yield chunk


def made(args: argparse.Namespace) -> Iterator[list[tuple[str, str]]]:
    """The pairs of each chunk, in order."""
    worker, chunks = Worker(args), _chunks(args.input)
    if args.workers == 1:
        yield from map(worker, chunks)
        return
    with multiprocessing.Pool(args.workers, _start, (worker,)) as pool:
        while some := list(itertools.islice(chunks, AHEAD * args.workers)):
            yield from pool.map(_make, some, chunksize=1)


def _start(worker: Worker) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    _worker = worker  # once in each process: it is large


def _make(chunk: Sequence[tuple[int, bytes]]) -> list[tuple[str, str]]:
    return _worker(chunk)


def main(args: argparse.Namespace) -> dict[str, Any]:
    """Make the corpus. Returns the report written to ``noise.json``."""
    source, target, report = check(args)
    counts = dict.fromkeys(("lines", "pairs", "changed", "empty"), 0)
    sides = [replacing(path, "wb", make_folder=True) for path in (source, target)]
    with sides[0] as faulty_file, sides[1] as clean_file:
        for pairs in made(args):
            for faulty, clean in pairs:
                counts["changed"] += faulty != clean
                counts["pairs" if clean else "empty"] += 1
                if clean:
                    faulty_file.write(faulty.encode("utf-8") + b"\n")
                    clean_file.write(clean.encode("utf-8") + b"\n")
            counts["lines"] += len(pairs)
    settings = {**vars(args), "input": "sha256:" + sha256(args.input)}
    files = {os.path.basename(path): sha256(path) for path in (source, target)}
    written = {"settings": settings, "counts": counts, "files": files}
    write_json(report, written)
    logger.info("%s: %s", args.dest, counts)
    return written


def cli_main(arguments: Sequence[str] | None = None) -> None:
    log_to_stderr("%(asctime)s | %(levelname)s | %(name)s | %(message)s")
    with reporting(PROGRAM, arguments) as words:
        args = brief(get_parser()).parse_args(words)
        try:
            main(args)
        except ValueError as error:
            raise SystemExit(f"{PROGRAM}: error: {error}") from error


if __name__ == "__main__":
    cli_main()
