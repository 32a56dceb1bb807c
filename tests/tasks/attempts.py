"""Commands that must end with an error, and two commands that must say the same."""

import pytest


def ranked_hypotheses(out):
    """{sentence: [(words, score), ...], best first} of fairseq-generate's output."""
    by_sentence = {}
    for line in out.splitlines():
        if line.startswith("H-"):
            number, score, words = line.split("\t")
            by_sentence.setdefault(number, []).append((words.split(), float(score)))
    return by_sentence


def assert_same_ranked(ours, stock):
    """Every hypothesis is stock's, its score to 1e-4."""
    assert ours.keys() == stock.keys()
    for number, theirs in stock.items():
        assert [words for words, _ in ours[number]] == [words for words, _ in theirs], number
        scores = [score for _, score in theirs]
        assert [score for _, score in ours[number]] == pytest.approx(scores, abs=1e-4)


def assert_same(ours, reference):
    assert len(reference) == 100
    assert ours.keys() == reference.keys()
    for number, (words, score, scores) in reference.items():
        mine = ours[number]
        assert mine[0] == words, f"sentence {number}"
        assert mine[1] == pytest.approx(score, abs=1e-3)
        assert mine[2] == pytest.approx(scores, abs=1e-3)
