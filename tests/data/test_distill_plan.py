"""Who decodes what: shards, subsets, chunks, and the check that no sentence is lost."""

import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.data.plan import (
    REASONS,
    Plan,
    Shard,
    group,
    make_plan,
    plan_from,
    resolve_shard,
    select,
)


def array_element(task, count, low, step=1, **more):
    names = {"ID": task, "COUNT": count, "MIN": low, "STEP": step}
    return dict({f"SLURM_ARRAY_TASK_{name}": str(v) for name, v in names.items()}, **more)


@pytest.mark.parametrize(
    "flag, environment, expected",
    [
        (None, {}, (0, 1)),
        ("2/5", {"RANK": "0", "WORLD_SIZE": "2"}, (2, 5)),
        (None, {"RANK": "3", "WORLD_SIZE": "4"}, (3, 4)),
        (None, array_element(7, 4, 5), (2, 4)),
        (None, array_element(9, 3, 5, step=2), (2, 3)),
        (None, array_element(6, 2, 5, RANK="1", WORLD_SIZE="3"), (4, 6)),
    ],
)
def test_shard_comes_from_flag_torchrun_or_slurm(flag, environment, expected):
    assert resolve_shard(flag, environment) == Shard(*expected)


@pytest.mark.parametrize("flag", ["4/4", "1", "-1/2", "a/b", "0/0"])
def test_malformed_shard_is_refused(flag):
    with pytest.raises(ValueError, match="--shard"):
        resolve_shard(flag, {})


def test_array_with_gaps_is_refused():
    with pytest.raises(ValueError, match="--shard i/n"):
        resolve_shard(None, array_element(9, 3, 1))


def test_subset_is_reproducible_and_nested():
    small, large = select(100, 10, None, seed=3), select(100, 40, None, seed=3)
    assert small.sum() == 10 and large.sum() == 40 and (large | ~small).all()
    assert (select(100, None, 0.4, seed=3) == large).all()
    assert (select(100, 10, None, seed=4) != small).any()
    assert select(5, 10, None, seed=1).all() and select(5, None, None, seed=1).all()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.integers(1, 60))
def test_chunks_hold_every_batch_once_and_are_full(sizes, chunk_size):
    ends = group(np.array(sizes), chunk_size)
    assert ends[-1] == len(sizes) and (np.diff(ends) > 0).all()
    held = [sum(part) for part in np.split(np.array(sizes), ends[:-1])]
    assert all(n >= chunk_size for n in held[:-1])


@given(st.integers(1, 7), st.integers(1, 40))
def test_shards_share_the_chunks(world, chunks):
    ends = np.arange(1, chunks + 1)
    plan = Plan(ends - 1, ends, ends, ends[:0], ends[:0], chunks)
    taken = [chunk for rank in range(world) for chunk in plan.chunks_of(Shard(rank, world))]
    assert sorted(taken) == list(range(chunks))


def test_plan_gives_its_batches_and_survives_saving():
    plan = Plan(
        np.array([4, 2, 0, 1, 3]), np.array([2, 3, 5]), np.array([2, 3]),
        np.array([5]), np.array([1], dtype=np.int8), 6,
    )  # fmt: skip
    again = plan_from(plan.arrays())
    assert [again.batches(0), again.batches(1)] == [[[4, 2], [0]], [[1, 3]]]
    assert again.indices(0).tolist() == [4, 2, 0] and again.indices(1).tolist() == [1, 3]
    assert again.total == 6


class Sized:
    """The parts of a LanguagePairDataset that planning looks at."""

    src_sizes = np.array([3, 9, 4, 20, 5])

    def __len__(self):
        return len(self.src_sizes)

    def num_tokens_vec(self, indices):
        return self.src_sizes[indices]

    def ordered_indices(self):
        return np.argsort(self.src_sizes, kind="stable")


def task_that(batch):
    def get_batch_iterator(dataset, **_):
        return types.SimpleNamespace(frozen_batches=batch(dataset.ordered_indices()))

    return types.SimpleNamespace(get_batch_iterator=get_batch_iterator)


def test_what_is_too_long_is_left_out_with_its_reason():
    task = task_that(lambda order: [order[:2], order[2:]])
    plan = make_plan(task, Sized(), np.ones(5, dtype=bool), 10, 1, max_tokens=8)
    reasons = [REASONS[code] for code in plan.left_out_codes]
    assert dict(zip(plan.left_out.tolist(), reasons)) == {
        1: "exceeds_max_tokens",
        3: "source_too_long",
    }
    assert plan.order.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "batch", [lambda order: [order[:-1]], lambda order: [order, order[:1]]], ids=["lost", "doubled"]
)
def test_batching_that_loses_or_doubles_is_caught(batch):
    with pytest.raises(ValueError, match="lost|doubled"):
        make_plan(task_that(batch), Sized(), np.ones(5, dtype=bool), None, 1)


def test_nothing_left_is_an_error():
    with pytest.raises(ValueError, match="no sentence is left"):
        make_plan(task_that(list), Sized(), np.ones(5, dtype=bool), 2, 1)
