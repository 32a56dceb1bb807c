"""Beam search through fairseq's own commands: all that they print is what stock prints."""

import functools
import re

import pytest
from in_process import SHAPE, run_here

KINDS = "STHDP"


@functools.cache
def decode(toy_data, flags):
    given = dict({"batch_size": 8, "beam": 5, "nbest": 5}, **dict(flags))
    return run_here("generate", toy_data, **given)


@pytest.fixture
def generate(toy):
    def run(**flags):
        return decode(toy.data, tuple(sorted(dict({"path": toy.v}, **flags).items())))

    return run


def printed(out):
    """(kind, sentence, score or None, words or scores) of every line, in their order."""
    lines = []
    for line in out.splitlines():
        match = re.match(rf"([{KINDS}])-(\d+)\t(.*)$", line)
        if match:
            kind, number, rest = match.groups()
            score = float(rest.split("\t")[0]) if kind in "HD" else None
            words = rest.split("\t")[-1].split()
            lines.append((kind, int(number), score, words))
    return lines


def assert_same(ours, reference, hypotheses=500):
    ours, reference = printed(ours), printed(reference)
    assert [line[0] for line in reference].count("H") == hypotheses
    assert [line[:2] for line in ours] == [line[:2] for line in reference]
    for (kind, number, score, words), (_, _, theirs, expected) in zip(ours, reference):
        where = f"{kind}-{number}"
        if kind == "P":
            scores = [list(map(float, some)) for some in (words, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=2e-4), where
        else:
            assert words == expected, where
            assert score == pytest.approx(theirs, abs=1e-4), where


def compare(generate, strategy="none", **flags):
    reference, _ = generate(task="translation", **flags)
    out, log = generate(task="translation_specdec", strategy=strategy, **flags)
    assert_same(out, reference, 100 * flags.get("nbest", 5))
    assert "cannot be honoured" not in log
    return out


@pytest.mark.parametrize(
    "strategy, batch_size", [("none", 8), ("greedy", 8), ("iad", 1), ("iad", 8)]
)
def test_prints_all_that_stock_prints(generate, strategy, batch_size):
    out = compare(generate, strategy, batch_size=batch_size)
    best = [line[3] for line in printed(out) if line[0] == "H"]
    assert len({tuple(words) for words in best}) > 400, "hypotheses are too alike to prove much"


@pytest.mark.parametrize(
    "flags", [{"prefix_size": 2}, {"lenpen": 0.2, "min_len": 9, "nbest": 2}], ids=str
)
def test_flags_mean_what_they_mean_in_stock(generate, flags):
    out = compare(generate, **flags)
    assert printed(out) != printed(generate(task="translation")[0]), "the flag changed nothing"


def test_the_default_width_is_that_of_stock(toy, generate):
    """fairseq's --beam is 5 where nobody says another."""
    reference, _ = generate(task="translation", beam=5, nbest=1)
    out, _ = run_here("generate", toy.data, task="translation_specdec", path=toy.v, batch_size=8)
    assert_same(out, reference, 100)
    narrow, _ = generate(task="translation", beam=1, nbest=1)
    assert printed(out) != printed(narrow)


def test_a_drafter_changes_nothing(toy, generate):
    reference, _ = generate(task="translation")
    flags = {"strategy": "gad", "drafter_path": toy.d, "block_size": 4}
    out, _ = generate(task="translation_specdec", **flags)
    assert_same(out, reference)


def test_a_history_is_that_of_the_best_hypothesis(generate, tmp_path):
    reference, _ = generate(task="translation")
    trace = tmp_path / "trace.jsonl"
    out, _ = generate(
        task="translation_specdec", strategy="none", retain_iter_history=True, print_step=True,
        trace_path=str(trace),
    )  # fmt: skip
    assert_same(out, reference)
    best, steps, emitted = {}, {}, {}
    for line in out.splitlines():
        match = re.match(r"([HIE])-(\d+)(?:_(\d+))?\t(.*)$", line)
        if match:
            kind, number, place, rest = match.groups()
            if kind == "H":
                best.setdefault(number, rest.split("\t")[1].split())
            elif kind == "I":
                steps.setdefault(number, set()).add(int(rest))
            elif int(place) % 2:
                emitted.setdefault(number, []).append(rest.split())
            else:
                assert rest == "", "nothing is drafted"
    assert len(best) == 100
    for number, words in best.items():
        (count,) = steps[number]
        assert len(emitted[number]) == count
        assert sum(emitted[number], []) == words
    assert len(trace.read_text(encoding="utf-8").splitlines()) == 100


def validated(train_here, toy, task, beam):
    """The BLEU of each validation while a verifier is trained further."""
    more = {} if task == "translation" else {"strategy": "none"}
    _, log = train_here(
        task=task, arch="transformer", criterion="cross_entropy", finetune_from_model=toy.v,
        max_update=3, validate_interval_updates=1, eval_bleu=True,
        eval_bleu_args=f'{{"beam": {beam}, "max_len_b": 20}}', **SHAPE, **more,
    )  # fmt: skip
    return re.findall(r"valid.*\| bleu ([\d.]+)", log)


def test_validation_decodes_with_a_beam(train_here, toy):
    wide = validated(train_here, toy, "translation_specdec", 5)
    assert len(wide) >= 3 and wide == validated(train_here, toy, "translation", 5)
    assert wide != validated(train_here, toy, "translation_specdec", 1)
