"""Confusion sets: the words that a spell-checker would propose for a word.

Grundkiewicz et al. (2019, section 3) take the proposals of a spell-checker, rank them by the mean
of the edit distance between the words and that between their phonetic codes, and keep the first 20.
Here symspellpy proposes (its English dictionary comes with the package), jellyfish measures; words
that sound the same are proposed as well.
"""

import os
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.errors import UsageError

from ..io.provenance import sha256
from .operations import Confusions

SIZE = 20  # words in a confusion set
DISTANCE = 2  # edits between a word and what the spell-checker proposes
DICTIONARY = "frequency_dictionary_en_82_765.txt"


def _tools() -> tuple[Any, Any]:
    try:
        import jellyfish
        import symspellpy
    except ImportError as error:
        raise UsageError(
            f"confusion sets need {error.name}",
            "pip install 'fairseq-specdec[gec]', or give your own by --confusion-sets FILE",
        ) from error
    return symspellpy, jellyfish


class SpellChecker(Confusions):
    """English confusion sets, computed when a word is first looked up, and then kept. ``size``:
    words in a set, at least 1. ``dictionary``: ``word count`` lines in place of symspellpy's own;
    words are lower-cased."""

    def __init__(self, size: int = SIZE, dictionary: str = "") -> None:
        symspellpy, self._jellyfish = _tools()
        self._size = size
        self._speller = symspellpy.SymSpell(DISTANCE)
        self._all = symspellpy.Verbosity.ALL
        path = dictionary or os.path.join(os.path.dirname(symspellpy.__file__), DICTIONARY)
        for word, count in _read_counts(path):
            self._speller.create_dictionary_entry(word, count)
        if not self._speller.words:
            raise UsageError(path, "holds no 'word count' line")
        self.vocabulary = sorted(self._speller.words)
        self.letters = _letters(self.vocabulary)
        self._sound: dict[str, str] = {}
        self._by_sound: dict[str, list[str]] = {}
        for word in self.vocabulary:
            self._sound[word] = self._jellyfish.metaphone(word)
            self._by_sound.setdefault(self._sound[word], []).append(word)
        self._known: dict[str, tuple[str, ...]] = {}

    def candidates(self, word: str) -> Sequence[str]:
        """At most ``size`` words of the dictionary, the nearest first; not ``word`` itself."""
        if word not in self._known:
            self._known[word] = self._find(word)
        return self._known[word]

    def _find(self, word: str) -> tuple[str, ...]:
        if word not in self._speller.words:
            return ()  # a name, a number or a word of another language
        sound = self._sound[word]
        proposed = {
            suggestion.term for suggestion in self._speller.lookup(word, self._all, DISTANCE)
        }
        proposed.update(self._by_sound[sound])
        proposed.discard(word)
        measure = self._jellyfish.levenshtein_distance
        ranked = sorted(
            (measure(word, other) + measure(sound, self._sound[other]), -self._count(other), other)
            for other in proposed
        )
        return tuple(other for _, _, other in ranked[: self._size])

    def _count(self, word: str) -> int:
        return int(self._speller.words[word])


class ConfusionFile(Confusions):
    """Confusion sets of one's own, for any language. ``path``: lines of words between tabs: a word,
    then what it may be mistaken for."""

    def __init__(self, path: str) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        for number, line in enumerate(_read_lines(path), 1):
            words = [word for word in line.split("\t") if word]
            if len(words) == 1:
                raise UsageError(
                    "--confusion-sets",
                    f"{path}, line {number}: expected a word, a tab and what it may be "
                    "mistaken for",
                )
            if words:
                self._known[words[0]] = tuple(words[1:])
        self.vocabulary = sorted({*self._known, *(w for ws in self._known.values() for w in ws)})
        self.letters = _letters(self.vocabulary)

    def candidates(self, word: str) -> Sequence[str]:
        """The words that the file names for ``word``."""
        return self._known.get(word, ())


def _letters(words: Sequence[str]) -> Sequence[str]:
    return sorted({letter for word in words for letter in word if letter.isalpha()})


def _read_lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as stream:
            return [line.rstrip("\r\n") for line in stream]
    except UnicodeDecodeError as error:
        raise UsageError(path, "is not UTF-8", "convert it") from error


def _read_counts(path: str) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for number, line in enumerate(_read_lines(path), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or not fields[1].isdigit():
            raise UsageError(f"{path}, line {number}", "expected 'word count'")
        word = fields[0].lower()
        counts[word] = counts.get(word, 0) + int(fields[1])
    return list(counts.items())


def describe(size: int, dictionary: str, file: str) -> dict[str, Any]:
    """What the confusion sets depend on, to be compared and recorded."""
    if file:
        return {"--confusion-sets": "sha256:" + sha256(file)}
    from importlib import metadata

    _tools()
    versions = {name: metadata.version(name) for name in ("symspellpy", "jellyfish")}
    own = "sha256:" + sha256(dictionary) if dictionary else ""
    return {"--confusions": size, "--dictionary": own, "versions": versions}
