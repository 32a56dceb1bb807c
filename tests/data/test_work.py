"""Which part of the work a process does, and that of several one publishes."""

import os

import pytest
from distilled import KEEP, SIZE, same_corpus

from fairseq_specdec.data import work
from fairseq_specdec.data.work import resolve_shard


def element(task, count, low, step=1, **more):
    names = {"ID": task, "COUNT": count, "MIN": low, "STEP": step}
    return dict({f"SLURM_ARRAY_TASK_{name}": str(v) for name, v in names.items()}, **more)


@pytest.mark.parametrize(
    "flag, environment, expected",
    [
        (None, {}, (0, 1)),
        ("2/5", {"RANK": "0", "WORLD_SIZE": "2"}, (2, 5)),
        (None, {"RANK": "3", "WORLD_SIZE": "4"}, (3, 4)),
        (None, element(7, 4, 5), (2, 4)),
        (None, element(9, 3, 5, step=2), (2, 3)),
        (None, element(6, 2, 5, RANK="1", WORLD_SIZE="3"), (4, 6)),
        (None, element(9, 3, 1), None),  # with gaps
        *((flag, {}, None) for flag in ("4/4", "1", "-1/2", "a/b", "0/0")),
    ],
)
def test_shard_comes_from_flag_torchrun_or_slurm(flag, environment, expected):
    if expected:
        assert resolve_shard(flag, environment) == expected
    else:
        with pytest.raises(ValueError, match="--shard"):
            resolve_shard(flag, environment)


@pytest.mark.parametrize("name", ["write_corpus", "joined"])
def test_of_two_that_see_the_last_chunk_finished_one_publishes(
    name, undisturbed, distill, tmp_path, monkeypatch
):
    """The second finds its result, and removes nothing."""
    real = getattr(work, name)

    def overtaken(*args):
        made = real(*args)
        monkeypatch.setattr(work, name, real)
        assert distill(*KEEP, "--shard", "1/2")["counts"]["kept"] == SIZE
        return made

    assert distill(*KEEP, "--shard", "1/2") is None
    monkeypatch.setattr(work, name, overtaken)
    assert distill(*KEEP, "--shard", "0/2")["counts"]["kept"] == SIZE
    assert same_corpus(tmp_path / "out", undisturbed) and os.listdir(tmp_path) == ["out"]
