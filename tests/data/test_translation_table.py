"""IBM model 1: the same as its equations word by word, in any chunks."""

from collections import defaultdict

import numpy as np
import pytest

from fairseq_specdec.data import translation_table
from fairseq_specdec.data.translation_table import chunks, likeliest_translations, most_frequent


def some_pairs(count=40, words=9, seed=5):
    rng = np.random.default_rng(seed)
    return [
        (rng.integers(0, words, rng.integers(1, 6)), rng.integers(0, words, rng.integers(1, 6)))
        for _ in range(count)
    ]


def slow_model(pairs, rounds, nothing):
    """Brown et al. 1993, equations 13 to 17, for one word after the other."""
    chances = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            source = [*source, nothing]
            for t in target:
                total = sum(chances[s, t] for s in source)
                for s in source:
                    counts[s, t] += chances[s, t] / total
                    totals[s] += chances[s, t] / total
        chances = defaultdict(float, {key: n / totals[key[0]] for key, n in counts.items()})
    return chances


@pytest.mark.parametrize("cells", [1, 50, 1 << 21])
@pytest.mark.parametrize("rounds", [1, 4])
def test_as_the_equations_word_by_word(cells, rounds, monkeypatch):
    monkeypatch.setattr(translation_table, "CELLS", cells)
    pairs = some_pairs()
    assert [pair for chunk in chunks(pairs) for pair in chunk] == pairs
    assert (len(chunks(pairs)) == 1) == (cells == 1 << 21)
    slow = slow_model(pairs, rounds, nothing=9)
    table = likeliest_translations(pairs, 9, 9, rounds, 20, fill=77)
    for source in range(9):
        row = [int(word) for word in table[source] if word != 77]
        assert sorted(row) == sorted(t for s, t in slow if s == source)
        chances = [slow[source, word] for word in row]
        assert all(a >= b - 1e-6 for a, b in zip(chances, chances[1:]))
    fewer = likeliest_translations(pairs, 9, 9, rounds, 2, 77)
    assert fewer.tolist() == table[:, :2].tolist()


def test_the_most_frequent_words():
    pairs = [(None, np.array([3, 1, 3])), (None, np.array([2, 2, 3]))]
    assert most_frequent(pairs, 2).tolist() == [3, 2]
    assert most_frequent(pairs, 5).tolist() == [3, 2, 1]
