"""Work in chunks: shards, published once by whoever is last, nothing removed under others."""

import errno
import fcntl
import os

import pytest

from fairseq_specdec.data.work import Shard, Work, resolve_shard

CHUNKS = 4


class Lines(Work):
    """Four chunks of a line each."""

    def __init__(self, destination, size=1):
        super().__init__(destination, {"--size": size}, {})

    def unfinished(self):
        return sum(not os.path.exists(self.path(f"chunk-{n}")) for n in range(CHUNKS))

    def work(self, shard):
        for n in range(shard.rank, CHUNKS, shard.world):
            if not os.path.exists(self.path(f"chunk-{n}")):
                with self.saving(f"chunk-{n}") as stream:
                    stream.write(b"%d\n" % n)

    def build(self, folder):
        with open(os.path.join(folder, "all"), "wb") as stream:
            for n in range(CHUNKS):
                with open(self.path(f"chunk-{n}"), "rb") as chunk:
                    stream.write(chunk.read())
        return {"counts": CHUNKS}

    def do(self, rank=0, world=1, meanwhile=lambda: None):
        shard = Shard(rank, world)
        return self.run(shard, lambda: (self.work(shard), meanwhile()))


@pytest.fixture
def job(tmp_path):
    return Lines(str(tmp_path / "out"))


def published(job):
    with open(os.path.join(job.destination, "all")) as stream:
        return stream.read() == "0\n1\n2\n3\n" and not os.path.exists(job.home)


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


def test_the_last_shard_publishes_and_removes_the_parts(job):
    assert job.do(1, 2) is None and not os.path.exists(job.destination)
    report = job.do(0, 2)
    assert (report["counts"], list(report["files"])) == (CHUNKS, ["all"])
    assert published(job) and job.do() == report == job.completed()


@pytest.mark.parametrize("locks", [True, False])
def test_of_two_that_see_the_last_chunk_finished_one_publishes(job, monkeypatch, locks):
    """The second finds its result; also where the file system has no locks."""

    def no_locks(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    class Slow(Lines):
        def build(self, folder):
            about = super().build(folder)
            assert job.do(1, 2)["counts"] == CHUNKS  # another process publishes first
            return about

    if not locks:
        monkeypatch.setattr(fcntl, "flock", no_locks)
    job.work(Shard(1, 2))
    assert Slow(job.destination).do(0, 2) == job.completed() and published(job)


def test_a_shard_that_was_overtaken_finds_the_result(job):
    late = Lines(job.destination)
    assert late.do(0, 2, lambda: (job.work(Shard(1, 2)), job.do(1, 2)))["counts"] == CHUNKS
    assert published(job)


@pytest.mark.parametrize("other, last", [((1, 2), True), ((1, 4), False)])
def test_other_shards_work_beside_one_and_the_same_is_refused(job, other, last):
    def meanwhile():
        with pytest.raises(ValueError, match=f"--dest: .* written by process {os.getpid()} on "):
            Lines(job.destination).do(0, 2)
        assert (Lines(job.destination).do(*other) is not None) == last

    assert job.do(0, 2, meanwhile) or job.do()
    assert published(job)


def test_parts_of_other_settings_are_not_discarded_under_a_process_at_work(job):
    def meanwhile():
        with pytest.raises(ValueError, match=f"written by process {os.getpid()} on"):
            Lines(job.destination, 2).check_destination(overwrite=True)

    job.do(0, 2, meanwhile)
    assert job.do(1, 2) and published(job)


def test_a_result_that_cannot_be_built_is_not_published(job):
    class Damaged(Lines):
        def build(self, folder):
            raise ValueError("line 3 is damaged")

    with pytest.raises(ValueError, match="line 3"):
        Damaged(job.destination).do()
    assert not os.path.exists(job.destination) and not job.unfinished()
    assert job.do()["counts"] == CHUNKS and published(job)


def test_settings_with_which_nothing_was_made_can_be_corrected(job):
    def mistaken():
        raise ValueError("--path: not a model")

    other = Lines(job.destination, 2)
    with pytest.raises(ValueError, match="not a model"):
        job.run(Shard(0, 1), mistaken)
    assert not os.path.exists(job.home)
    assert job.do(1, 2) is None
    with pytest.raises(ValueError, match="--size: was 1, now is 2"):
        other.check_destination(overwrite=False)
    other.check_destination(overwrite=True)
    assert job.unfinished() == CHUNKS
