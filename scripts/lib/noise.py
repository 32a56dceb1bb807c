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
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from text_files import each_line

from fairseq_specdec.commands.own import brief, command_parser, log_to_stderr, reporting
from fairseq_specdec.io.atomic import replacing, write_json
from fairseq_specdec.io.flag_values import AT_LEAST_1, SHARE, Range, add_flag
from fairseq_specdec.io.provenance import sha256

logger = logging.getLogger("noise")
PROGRAM, REPORT = "noise.py", "noise.json"
CHUNK = 500  # lines that a process noises at once
AHEAD = 20  # chunks for each process that are read at once
IGNORED = (signal.SIGINT, signal.SIG_IGN)  # in the processes: Ctrl-C is for their parent
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
                f"confusion sets need {error.name}: pip install -r scripts/requirements/gec.txt, "
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


def confusions_of(args: argparse.Namespace) -> Confusions:
    """Those of --confusion-sets, or the spell checker's."""
    if not args.confusion_sets:
        return SpellChecker(args.confusions)
    sets = {}
    for number, line in enumerate(each_line(args.confusion_sets), 1):
        word, *others = list(filter(None, line.removeprefix("\ufeff").split("\t"))) or [""]
        if word and not others:
            raise ValueError(
                f"--confusion-sets: {args.confusion_sets}, line {number}: expected a word, a tab "
                "and what it may be confused with"
            )
        if word:
            sets[word] = tuple(others)
    return Confusions(sets, {*sets, *(word for words in sets.values() for word in words)})


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


def noised(args: argparse.Namespace, chunk: Sequence[tuple[int, str]]) -> list[tuple[str, str]]:
    """Faulty and clean side of numbered lines."""
    confusions = known_confusions(tuple(sorted(vars(args).items())))
    clean = [(number, " ".join(line.split())) for number, line in chunk]
    return [(Noise(args, number, confusions).faulty(line), line) for number, line in clean]


@functools.cache
def known_confusions(flags: tuple[tuple[str, Any], ...]) -> Confusions:
    """The confusions of these flags, once in each process: they are large."""
    return confusions_of(argparse.Namespace(**dict(flags)))


def made(args: argparse.Namespace) -> Iterator[list[tuple[str, str]]]:
    """The pairs of each chunk, in order."""
    lines, work = enumerate(each_line(args.input)), functools.partial(noised, args)
    work([])  # what is wrong with the confusions is found here, not in a process
    chunks = iter(lambda: list(itertools.islice(lines, CHUNK)), [])
    with multiprocessing.Pool(args.workers, signal.signal, IGNORED) as pool:
        while some := list(itertools.islice(chunks, AHEAD * args.workers)):
            yield from pool.map(work, some, chunksize=1)


def main(args: argparse.Namespace) -> None:
    """Make the corpus, and then ``noise.json``."""
    source, target, report = check(args)
    counts = dict.fromkeys(("lines", "pairs", "changed", "empty"), 0)
    with replacing(source, make_folder=True) as faulty_file, replacing(target) as clean_file:
        for faulty, clean in itertools.chain.from_iterable(made(args)):
            counts["lines"] += 1
            counts["changed"] += faulty != clean
            counts["pairs" if clean else "empty"] += 1
            if clean:
                faulty_file.write(faulty + "\n")
                clean_file.write(clean + "\n")
    settings = {**vars(args), "input": "sha256:" + sha256(args.input)}
    files = {os.path.basename(path): sha256(path) for path in (source, target)}
    write_json(report, {"settings": settings, "counts": counts, "files": files})
    logger.info("%s: %s", args.dest, counts)


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
