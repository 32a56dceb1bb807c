"""``--strategy sps`` and ``--sampling`` through fairseq-generate's own command line."""

import pytest
from attempts import accepted, assert_same, generate
from in_process import hypotheses, lines_of
from toy_translation import assert_diverse


@pytest.fixture(scope="module")
def small(other):
    """A second model of the toy language, of other weights than the verifier's."""
    return str(other[0] / "checkpoint_last.pt")


@pytest.fixture(scope="module")
def greedy(toy):
    return hypotheses(generate(toy, task="translation", max_len_b=30)[0])


@pytest.mark.parametrize("flags", [{}, {"block_size": 7, "drafter_dtype": "bf16"}], ids=str)
def test_greedy_speculation_prints_what_stock_prints(toy, small, greedy, flags):
    out, log = generate(toy, strategy="sps", drafter_path=small, max_len_b=30, **flags)
    assert_same(hypotheses(out), greedy)
    assert_diverse([words for words, _, _ in greedy.values()])
    assert accepted(log) > 1.2


def samples(toy, strategy, drafter, **flags):
    given = {
        "strategy": strategy,
        "drafter_path": drafter,
        "sampling": True,
        "temperature": 1.5,
        "max_len_b": 30,
        "seed": 3,
    }
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
