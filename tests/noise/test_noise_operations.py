"""Errors by word and character operations: what each may do, how often, and what decides it."""

import collections
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.noise.operations import (
    OPERATIONS,
    Confusions,
    NoiseSettings,
    add_errors,
    draw_count,
    misspell,
    noise_line,
)

LINE = "The quick brown fox jumps over the lazy dog and runs away from him ."
NONE = NoiseSettings(0, 0, 0.7, 0.1, 0.1, 0.1, 0)


class Known(Confusions):
    """Each word is mistaken for itself in brackets; zebra is inserted."""

    vocabulary = ("zebra",)
    letters = ("q",)

    def candidates(self, word):
        return (f"{word}x",) if word != "fox" else ()


def only(operation, mean=1.0):
    """Settings that change each word in one way, or a share of the words."""
    return NoiseSettings(mean, 0, *(float(name == operation) for name in OPERATIONS), 0)


def noised(line, settings, seed=1):
    return add_errors(line, random.Random(str(seed)), settings, Known())


def test_each_operation_does_what_its_name_describes():
    line = "Ann SAW foxes ."
    assert noised(line, only("substitute")) == "Annx SAWX foxesx ."
    assert noised(line, only("insert")) == "Ann zebra SAW zebra foxes zebra ."
    assert noised(line, only("delete")) == "."
    assert noised("one two", only("delete")) == "one two"  # never an empty source
    assert noised("ab cd ef", only("swap", mean=0.34)) in {"cd ab ef", "ab ef cd"}
    assert noised(line, NONE) == line


def test_unknown_words_and_signs_stay():
    assert noised("fox 12 ... &", only("substitute")) == "fox 12 ... &"
    assert noised('He said: "foxes!"', only("substitute")) == 'Hex saidx: "foxesx!"'
    assert noised("a fox, no", only("delete")) == ","  # a sign outlives its word


@given(st.text(max_size=60), st.integers(0, 5))
def test_any_text_gives_one_line_of_words(text, seed):
    result = noised(text, NoiseSettings(), seed)
    assert result == " ".join(result.split())
    assert bool(result) == bool(text.split())
    assert noised(text, NONE, seed) == " ".join(text.split())


@given(st.text(min_size=1, max_size=12), st.integers(0, 50))
def test_a_misspelled_word_is_no_empty_word(word, seed):
    rng = random.Random(seed)
    result = misspell(word, rng, NoiseSettings(), ("q",))
    assert result
    assert misspell(word, random.Random(seed), NoiseSettings(substitute=0), ()) != ""


def test_swapped_letters_are_the_same_letters():
    settings = NoiseSettings(0.3, 0.1, 0, 0, 0, 1, 1)
    words = [misspell("scramble", random.Random(seed), settings, ()) for seed in range(50)]
    assert all(sorted(word) == sorted("scramble") for word in words)
    assert sum(word != "scramble" for word in words) > 40


def test_the_share_of_changed_words_is_normal():
    rng = random.Random(3)
    size = 1000
    shares = [draw_count(rng, NoiseSettings(0.5, 0.1), size) / size for _ in range(2000)]
    assert statistics.mean(shares) == pytest.approx(0.5, abs=0.01)
    assert statistics.stdev(shares) == pytest.approx(0.1, abs=0.01)
    clipped = [draw_count(rng, NoiseSettings(), size) for _ in range(2000)]
    below = statistics.NormalDist(0.15, 0.2).cdf(0)
    assert clipped.count(0) / 2000 == pytest.approx(below, abs=0.03)
    assert draw_count(rng, NoiseSettings(1, 0), 7) == 7
    assert draw_count(rng, NoiseSettings(0.5, 50), 7) in range(8)


def test_operations_come_as_often_as_their_weights():
    settings = NoiseSettings(0.1, 0, spelling=0)
    line = " ".join(f"w{letter}" for letter in "abcdefghij")  # one error a line
    seen = collections.Counter()
    for number in range(4000):
        words = noise_line(line, number, 1, settings, Known()).split()
        kind = {9: "delete", 11: "insert"}.get(len(words))
        if kind is None:
            kind = "substitute" if any(word.endswith("x") for word in words) else "swap"
        seen[kind] += 1
    shares = {name: seen[name] / 4000 for name in OPERATIONS}
    assert shares == pytest.approx(
        {"substitute": 0.7, "delete": 0.1, "insert": 0.1, "swap": 0.1}, abs=0.02
    )


def test_one_word_in_ten_is_misspelled():
    settings = NoiseSettings(0, 0)
    line = " ".join(["misspelling"] * 20)
    words = [w for n in range(500) for w in noise_line(line, n, 1, settings, Known()).split()]
    changed = sum(word != "misspelling" for word in words) / len(words)
    # A swap of equal letters ("ss", "ll") leaves the word as it was now and then.
    assert changed == pytest.approx(0.1, abs=0.01)


def test_a_line_depends_on_seed_and_number_alone():
    def corpus(seed):
        return [noise_line(LINE, number, seed, NoiseSettings(), Known()) for number in range(40)]

    random.seed(5)
    first = corpus(1)
    random.seed(6)
    assert corpus(1) == first
    assert corpus(2) != first
    assert len(set(first)) > 20  # equal lines get errors of their own
    assert noise_line(LINE, 1, 11, NoiseSettings(), Known()) != noise_line(
        LINE, 11, 1, NoiseSettings(), Known()
    )


def test_some_operation_must_have_a_weight():
    nothing = NoiseSettings()._replace(**dict.fromkeys(OPERATIONS, 0))
    assert nothing.problem().startswith("--substitute")
    assert NoiseSettings().problem() == "" and NONE.problem() == ""
