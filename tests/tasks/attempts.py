"""fairseq-generate here, what it printed, and two commands that must print the same."""

import re

import pytest
from in_process import hypotheses, run_here


def generate(toy, task="translation_specdec", **flags):
    """(stdout, log) of fairseq-generate with a toy's verifier."""
    given = {"path": toy.v, "beam": 1, "batch_size": 16, **flags}
    return run_here("generate", toy.data, task=task, **given)


def words_of(out):
    """{sentence: words} of the best hypotheses."""
    return {number: words for number, (words, _, _) in hypotheses(out).items()}


def accepted(log):
    """The mean accepted tokens that a command has logged."""
    return float(re.search(r"strategy \S+: .*?([\d.]+) mean accepted tokens", log).group(1))


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
