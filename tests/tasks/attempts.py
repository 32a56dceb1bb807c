"""fairseq-generate here, what it printed, and two commands that must print the same."""

import re

import pytest
from in_process import run_here

SENTENCES = 40  # of the corpus, in its split test
SUMMARY = re.compile(
    r"strategy (\S+): (\d+) sentences, (\d+) iterations \(([\d.]+) per sentence\), ([\d.]+) mean "
    r"accepted tokens, ([\d.]+)% of (\d+) drafted tokens accepted; [\d.]+ s: encoder [\d.]+ s / "
    r"drafter encoder [\d.]+ s / drafter [\d.]+ s / verifier [\d.]+ s / rest [\d.]+ s"
)


def generate(toy, task="translation_specdec", **flags):
    """(stdout, log) of fairseq-generate with a toy's verifier."""
    given = {"path": toy.v, "beam": 1, "batch_size": 16, **flags}
    return run_here("generate", toy.data, task=task, **given)


def accepted(log):
    """The mean accepted tokens that a command has logged."""
    return float(re.search(r"strategy \S+: .*?([\d.]+) mean accepted tokens", log).group(1))


def printed(out):
    """(kind, sentence, score or None, words or scores) of every line, in their order."""
    lines = []
    for kind, number, rest in re.findall(r"^([STHDP])-(\d+)\t(.*)$", out, re.M):
        score = float(rest.split("\t")[0]) if kind in "HD" else None
        lines.append((kind, int(number), score, rest.split("\t")[-1].split()))
    return lines


def words_of(out):
    """{sentence: words} of the best hypotheses."""
    best = {}
    for kind, number, _, words in printed(out):
        if kind == "H":
            best.setdefault(number, words)
    return best


def assert_same(ours, reference, count):
    """All lines are equal, scores but for rounding; so many are hypotheses."""
    ours, reference = printed(ours), printed(reference)
    assert [line[0] for line in reference].count("H") == count
    assert [line[:2] for line in ours] == [line[:2] for line in reference]
    for (kind, number, score, words), (_, _, theirs, expected) in zip(ours, reference):
        where = f"{kind}-{number}"
        if kind == "P":
            scores = [list(map(float, some)) for some in (words, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-3), where
        else:
            assert words == expected, where
            assert score == pytest.approx(theirs, abs=1e-3), where
