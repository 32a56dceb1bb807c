"""SARI: the authors' example, its limits, and what it ignores."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wikilarge.sari import corpus_sari, sentence_sari

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
    assert 100 * sentence_sari(SOURCE, output, REFERENCES).score == pytest.approx(expected)


def test_references_vote():
    source = "a b c d e"
    one_of_two = sentence_sari(source, source, ["a b c d e", "v w x y z"])
    assert one_of_two.keep == pytest.approx(2 * 0.5 * 1 / 1.5)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WORDS, WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_scores_are_shares_and_ignore_case_and_the_order_of_references(source, output, references):
    sari = sentence_sari(source, output, references)
    assert all(0 <= part <= 1 + 1e-9 for part in (*sari, sari.score))
    again = sentence_sari(source.upper(), output.title(), references[::-1])
    assert tuple(again) == pytest.approx(tuple(sari))


@pytest.mark.parametrize("wrong", [([], [], []), (["a"], ["a"], []), (["a"], ["a"], [[]])])
def test_what_cannot_be_scored_is_refused(wrong):
    with pytest.raises(ValueError, match="no sentence|outputs for|reference"):
        corpus_sari(*wrong)
