"""SARI: the authors' example, its limits, and what it ignores."""

import statistics

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wikilarge.scores import sari

# The example in the authors' program, with the values that it prints (in percent).
SOURCE = "About 95 species are currently accepted ."
REFERENCES = [
    "About 95 species are currently known .",
    "About 95 species are now accepted .",
    "95 species are now accepted .",
]
EXAMPLE = [
    ("About 95 you now get in .", 26.82782411698074),
    ("About 95 species are now agreed .", 58.89995423074248),
    ("About 95 species are currently agreed .", 50.71608864657479),
]

WORDS = st.lists(st.sampled_from("a b c d".split()), max_size=6).map(" ".join)


@pytest.mark.parametrize(("output", "expected"), EXAMPLE)
def test_the_authors_example(output, expected):
    references = list(map(str.lower, REFERENCES))
    parts = sari(SOURCE.lower(), output.lower(), references)
    assert 100 * statistics.fmean(parts) == pytest.approx(expected)


def test_references_vote():
    source = "a b c d e"
    _, keep, _ = sari(source, source, ["a b c d e", "v w x y z"])
    assert keep == pytest.approx(2 * 0.5 * 1 / 1.5)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WORDS, WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_scores_are_shares_and_ignore_the_order_of_references(source, output, references):
    parts = sari(source, output, references)
    assert all(0 <= part <= 1 + 1e-9 for part in parts)
    assert sari(source, output, references[::-1]) == pytest.approx(parts)
