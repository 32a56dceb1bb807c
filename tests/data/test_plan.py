"""Which sentences are decoded together, and why some are dropped."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.data.merge import judge
from fairseq_specdec.data.part import make_plan
from fairseq_specdec.data.teacher import Hypotheses

EOS = 2


class Sized:
    """The parts of a LanguagePairDataset that planning looks at."""

    src_sizes = np.array([3, 9, 4, 20, 5])

    def __len__(self):
        return len(self.src_sizes)

    def num_tokens(self, index):
        return self.src_sizes[index]

    def ordered_indices(self):
        return np.argsort(self.src_sizes, kind="stable")


def plan_of(batch, longest=None, chunk_size=1, dataset=None, limit=None, **batching):
    def get_batch_iterator(dataset, **_):
        return types.SimpleNamespace(frozen_batches=batch(dataset.ordered_indices()))

    dataset = dataset or Sized()
    task = types.SimpleNamespace(get_batch_iterator=get_batch_iterator)
    return make_plan(task, dataset, longest, limit, chunk_size, **{"seed": 1, **batching})


def test_a_subset_is_reproducible_and_nested():
    dataset = Sized()
    dataset.src_sizes = np.arange(100)

    def chosen(limit, seed=3):
        plan = plan_of(lambda order: [order], dataset=dataset, limit=limit, seed=seed)
        return set(plan.chunks[0][0])

    assert len(chosen(10)) == 10 and len(chosen(40)) == 40 and chosen(10) < chosen(40)
    assert chosen(10) != chosen(10, seed=4)
    assert chosen(200) == chosen(None) == set(range(100))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 60))
def test_chunks_hold_every_batch_once_and_are_full(sizes, chunk_size):
    dataset = Sized()
    dataset.src_sizes = np.arange(sum(sizes))
    batches = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    plan = plan_of(lambda order: batches, None, chunk_size, dataset)
    assert [batch for chunk in plan.chunks for batch in chunk] == [
        each.tolist() for each in batches
    ]
    held = [plan.size(chunk) for chunk in range(len(plan.chunks))]
    assert min(held) > 0 and all(size >= chunk_size for size in held[:-1])


def test_what_is_too_long_is_left_out_with_its_reason():
    plan = plan_of(lambda order: [order[:2], order[2:]], 10, max_tokens=8)
    assert plan.dropped == {1: "exceeds_max_tokens", 3: "source_too_long"}
    assert plan.chunks == [[[0, 2]], [[4]]]


def test_a_corpus_of_which_nothing_is_left_is_refused():
    with pytest.raises(ValueError, match="no sentence is left"):
        plan_of(list, 2)


def reason(output, source, at_limit=False, on_length_limit="drop"):
    """Of one sentence whose output and source have so many tokens beside </s>, or None."""
    tokens = [] if output is None else [5] * output + [EOS]
    arrays = [np.array(each) for each in ([0], [len(tokens)], [at_limit], tokens, [0.5])]
    (found,) = judge(Hypotheses(*arrays), np.array([source + 1]), on_length_limit)
    return found


@pytest.mark.parametrize(
    "expected, given",
    [
        ("", (1, 1)),
        ("empty_source", (1, 0)),
        ("no_hypothesis", (None, 2)),
        ("empty_target", (0, 2)),
        ("length_limit", (2, 2, True)),
        ("", (2, 2, True, "keep")),
        ("empty_source", (0, 0, True)),  # the first
    ],
)
def test_every_reason_is_distinguished(expected, given):
    assert reason(*given) == expected
