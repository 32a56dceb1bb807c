"""Turn a clean sentence into a faulty one by word and character operations.

Grundkiewicz, Junczys-Dowmunt and Heafield (BEA 2019, section 3): a share of a sentence's words,
drawn from a normal distribution, is substituted from confusion sets, deleted, joined by a random
word, or swapped with a neighbour; some words get the same operations on their characters.

All draws come from ``random.Random.random``, whose sequence Python keeps between releases.
"""

import random
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")
# A word between the punctuation that may be attached to it in raw text.
WORD = re.compile(r"(\W*)(.*?)(\W*)", re.DOTALL)
OPERATIONS = ("substitute", "delete", "insert", "swap")


class NoiseSettings(NamedTuple):
    """How many errors of which kind; the defaults are Grundkiewicz et al.'s."""

    mean: float = 0.15  # share of a sentence's words that are changed: mean
    deviation: float = 0.2  # and standard deviation of a normal distribution
    substitute: float = 0.7  # weight of each operation on a word that is changed
    delete: float = 0.1
    insert: float = 0.1
    swap: float = 0.1
    spelling: float = 0.1  # probability that a word's characters are changed

    def problem(self) -> str:
        """What is wrong with these values, by flag; empty if nothing is."""
        if not sum(getattr(self, name) for name in OPERATIONS) > 0:
            return "--substitute, --delete, --insert and --swap are all 0: one must be more"
        return ""


class Confusions:
    """What a word may be mistaken for, and which words and letters there are. ``vocabulary``: words
    to insert. ``letters``: characters to insert or substitute."""

    vocabulary: Sequence[str] = ()
    letters: Sequence[str] = ()

    def candidates(self, word: str) -> Sequence[str]:
        """Words that a lower-case word may be mistaken for; none if it is not known."""
        raise NotImplementedError


def like_case(old: str, new: str) -> str:
    """``new`` with a capital if ``old`` has one."""
    return new.capitalize() if old[:1].isupper() and new else new


def pick(rng: random.Random, items: Sequence[Item]) -> Item:
    """One item, each as likely."""
    return items[int(rng.random() * len(items))]


def choose(rng: random.Random, settings: NoiseSettings) -> str:
    """One of OPERATIONS, by their weights."""
    weights = [getattr(settings, name) for name in OPERATIONS]
    draw = rng.random() * sum(weights)
    for name, weight in zip(OPERATIONS, weights):
        draw -= weight
        if draw < 0:
            return name
    return max(zip(weights, OPERATIONS))[1]  # by rounding the weights may sum to less


def draw_count(rng: random.Random, settings: NoiseSettings, size: int) -> int:
    """How many of ``size`` items to change: p * size with p ~ N(mean, deviation), clipped."""
    uniform = rng.random()
    share = settings.mean
    if settings.deviation > 0 and uniform > 0:
        share = statistics.NormalDist(settings.mean, settings.deviation).inv_cdf(uniform)
    return min(max(round(share * size), 0), size)


def draw_places(rng: random.Random, candidates: Sequence[int], count: int) -> list[int]:
    """``count`` different items of ``candidates``, in increasing order."""
    left = list(candidates)
    chosen = []
    for _ in range(min(count, len(left))):
        chosen.append(left.pop(int(rng.random() * len(left))))
    return sorted(chosen)


def split_signs(token: str) -> tuple[str, str, str]:
    """The signs before a word, the word, and the signs after it."""
    match = WORD.fullmatch(token)
    if match is None:  # cannot be: every string matches
        return "", token, ""
    return match.group(1), match.group(2), match.group(3)


def misspell(word: str, rng: random.Random, settings: NoiseSettings, letters: Sequence[str]) -> str:
    """The word with at least one operation on its characters.

    The number of operations follows the same distribution as that of a sentence's words; a word of
    one character is never deleted.
    """
    count = max(draw_count(rng, settings, len(word)), 1)
    slots = list(word)
    for place in draw_places(rng, range(len(word)), count):
        operation = choose(rng, settings)
        if operation == "substitute":
            slots[place] = like_case(word[place], pick(rng, letters)) if letters else slots[place]
        elif operation == "delete":
            slots[place] = slots[place] if len(word) == 1 else ""
        elif operation == "insert":
            slots[place] += pick(rng, letters) if letters else ""
        else:
            _swap(slots, place)
    return "".join(slots) or word


def _swap(slots: list[Item], place: int) -> None:
    """Exchange an item and its right neighbour (the last one: its left neighbour), in place."""
    other = place + 1 if place + 1 < len(slots) else place - 1
    if other >= 0:
        slots[place], slots[other] = slots[other], slots[place]


def add_errors(
    line: str, rng: random.Random, settings: NoiseSettings, confusions: Confusions
) -> str:
    """A faulty version of a clean sentence; it may come back unchanged, and is never empty.

    Args:
        line: tokens between blanks; punctuation attached to a word (raw text) stays with it.
        rng: its ``random()`` decides everything.
        confusions: what replaces and joins words. A word without candidates is not substituted.
    """
    tokens = line.split()
    parts = [split_signs(token) for token in tokens]
    words = [place for place, part in enumerate(parts) if any(map(str.isalpha, part[1]))]
    slots: list[list[str]] = [[token] for token in tokens]
    for place in draw_places(rng, words, draw_count(rng, settings, len(words))):
        operation = choose(rng, settings)
        if operation == "swap":
            _swap(slots, place)
        else:
            slots[place] = _changed(slots[place], parts[place], operation, rng, confusions)
    faulty = [token for slot in slots for token in slot]
    for place, token in enumerate(faulty):
        before, word, after = split_signs(token)
        spelled = any(map(str.isalpha, word))
        if spelled and rng.random() < settings.spelling:
            faulty[place] = before + misspell(word, rng, settings, confusions.letters) + after
    return " ".join(faulty) or " ".join(tokens)


def _changed(
    slot: list[str],
    part: tuple[str, str, str],
    operation: str,
    rng: random.Random,
    confusions: Confusions,
) -> list[str]:
    """The tokens of one place after an operation on its word. ``slot``: its tokens. ``part``:
    punctuation before its word, the word, and punctuation after it."""
    before, word, after = part
    if operation == "substitute":
        others = confusions.candidates(word.lower())
        return [before + _recase(word, pick(rng, others)) + after] if others else slot
    if operation == "delete":
        return [before + after] if before + after else []
    return [*slot, pick(rng, confusions.vocabulary)] if confusions.vocabulary else slot


def _recase(old: str, new: str) -> str:
    if len(old) > 1 and old.isupper():
        return new.upper()
    return like_case(old, new)


def noise_line(
    line: str, number: int, seed: int, settings: NoiseSettings, confusions: Confusions
) -> str:
    """:func:`add_errors` with draws that depend on nothing but the seed and the line's number.
    ``number``: the line's place in the whole corpus, from 0, whatever the shard."""
    # A text seeds by SHA-512, so neighbouring lines and seeds share nothing.
    return add_errors(line, random.Random(f"{seed}:{number}"), settings, confusions)
