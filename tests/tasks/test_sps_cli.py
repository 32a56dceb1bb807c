"""``--strategy sps`` and ``--sampling`` through fairseq-generate's own command line."""

import re

import pytest
from in_process import hypotheses, lines_of, run_here
from toy_translation import assert_diverse


@pytest.fixture(scope="module")
def small(other):
    """A second model of the toy language, of other weights than the verifier's."""
    return str(other[0] / "checkpoint_last.pt")


def generate(toy, task="translation_specdec", **flags):
    given = {"path": toy.v, "beam": 1, "batch_size": 16, "max_len_b": 30, "seed": 3}
    return run_here("generate", toy.data, task=task, **dict(given, **flags))


@pytest.fixture(scope="module")
def greedy(toy):
    return hypotheses(generate(toy, task="translation")[0])


@pytest.mark.parametrize("flags", [{}, {"block_size": 7, "drafter_dtype": "bf16"}], ids=str)
def test_greedy_speculation_prints_what_stock_prints(toy, small, greedy, flags):
    out, log = generate(toy, strategy="sps", drafter_path=small, **flags)
    ours = hypotheses(out)
    assert set(ours) == set(greedy)
    for number, (words, score, scores) in greedy.items():
        assert ours[number][0] == words
        assert ours[number][1:] == (pytest.approx(score, abs=2e-4), pytest.approx(scores, abs=2e-4))
    assert_diverse([words for words, _, _ in ours.values()])
    summary = re.search(r"strategy sps: .*?([\d.]+) mean accepted tokens", log)
    assert float(summary.group(1)) > 1.2


def samples(toy, strategy, drafter, **flags):
    given = {"strategy": strategy, "drafter_path": drafter, "sampling": True, "temperature": 1.5}
    return lines_of("H", generate(toy, **dict(given, **flags))[0])


def test_samples_follow_the_seed(toy, small):
    first = samples(toy, "sps", small)
    assert first == samples(toy, "sps", small)
    assert first != samples(toy, "sps", small, seed=4)


def test_sampling_from_the_best_token_alone_is_greedy(toy, small, greedy):
    for flags in ({"sampling_topk": 1}, {"sampling_topp": 1e-6}):
        ours = samples(toy, "sps", small, temperature=None, **flags)
        assert {n: rest.split("\t")[1].split() for n, rest in ours.items()} == {
            n: words for n, (words, _, _) in greedy.items()
        }


@pytest.mark.parametrize(
    "flags, text",
    [
        ({"drafter_path": None}, ["--strategy sps", "needs --drafter-path"]),
        ({"drafter_path": "/no/x.pt"}, ["--drafter-path", "/no/x.pt"]),
        ({"drafter_path": "d"}, ["--drafter-path", "block drafter", "--strategy gad"]),
        ({"path": "d"}, ["--path", "holds a drafter"]),
        ({"strategy": "gad"}, ["--drafter-path", "no block drafter"]),
        ({"drafter_dtype": "int4"}, ["--drafter-dtype int4"]),
        ({"sampling": True, "temperature": 0}, ["--temperature"]),
        ({"sampling": True, "strategy": "gad++", "drafter_path": "d"}, ["--sampling:"]),
        (
            {"sampling": True, "strategy": "gad", "drafter_path": "d", "collapse_repeats": True},
            ["--collapse-repeats", "--sampling"],
        ),
    ],
    ids=str,
)
def test_mistakes_are_refused_by_flag(attempt, toy, small, flags, text):
    given = dict({"strategy": "sps", "drafter_path": small}, **flags)
    message = attempt(**{name: toy.d if value == "d" else value for name, value in given.items()})
    for part in text:
        assert part in message
