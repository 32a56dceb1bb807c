"""SARI: the authors' example, its limits, and what it ignores."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wikilarge.sari import Sari, corpus_sari, ngrams, sentence_sari

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


def test_a_corpus_is_the_mean_of_its_sentences():
    outputs = [output for output, _ in EXAMPLE]
    corpus = corpus_sari([SOURCE] * 3, outputs, [REFERENCES] * 3)
    assert 100 * corpus.score == pytest.approx(sum(score for _, score in EXAMPLE) / 3)


def test_deleting_too_much_costs_more_than_too_little():
    source, reference = "a b c d e f g h", "a b c d"
    nothing = sentence_sari(source, source, [reference])
    all_of_it = sentence_sari(source, "", [reference])
    assert nothing.delete == 0 and 0 < all_of_it.delete < 1
    assert nothing.keep > all_of_it.keep == 0
    assert sentence_sari(source, reference, [reference]) == Sari(0.0, 1.0, 1.0)


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


def test_ngrams_are_counted():
    assert ngrams("A b a b", 2) == {"a b": 2, "b a": 1}
    assert ngrams("a", 2) == {}


@pytest.mark.parametrize("wrong", [([], [], []), (["a"], ["a"], []), (["a"], ["a"], [[]])])
def test_what_cannot_be_scored_is_refused(wrong):
    with pytest.raises(ValueError, match="no sentence|outputs for|reference"):
        corpus_sari(*wrong)
