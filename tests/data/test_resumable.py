"""A job in chunks: published once by whoever is last, and nothing removed under those at work."""

import errno
import fcntl
import os
import threading

import pytest

from fairseq_specdec.data.plan import Shard
from fairseq_specdec.data.resumable import ResumableJob

CHUNKS = 4


class Lines(ResumableJob):
    """Four chunks of a line each."""

    def unfinished(self):
        return [n for n in range(CHUNKS) if not os.path.isfile(self.path(f"chunk-{n}"))]

    def work(self, shard):
        for n in range(shard.rank, CHUNKS, shard.world):
            with open(self.path(f"chunk-{n}"), "w") as stream:
                stream.write(f"{n}\n")

    def build(self, folder):
        with open(os.path.join(folder, "all"), "w") as stream:
            for n in range(CHUNKS):
                with open(self.path(f"chunk-{n}")) as chunk:
                    stream.write(chunk.read())
        return {"counts": CHUNKS}

    def do(self, rank=0, world=1, build=None):
        shard = Shard(rank, world)
        return self.run(shard, lambda: self.work(shard), build or self.build)


@pytest.fixture
def job(tmp_path):
    return Lines(str(tmp_path / "out"), "report.json", {"--size": 1})


def content(job):
    with open(os.path.join(job.destination, "all")) as stream:
        return stream.read()


def test_the_last_shard_publishes_and_removes_the_parts(job):
    assert job.do(1, 2) is None and not os.path.exists(job.destination)
    report = job.do(0, 2)
    assert (report["counts"], list(report["files"])) == (CHUNKS, ["all"])
    assert content(job) == "0\n1\n2\n3\n" and not os.path.exists(job.home)
    assert job.do() == report == job.completed()


def test_two_that_see_the_last_chunk_finished_publish_once(job):
    """The second waits for the first, finds its result, and keeps no parts."""
    built, reports, working = [], [], threading.Event()

    def build(folder):
        built.append(folder)
        return job.build(folder)

    def first():
        job.work(Shard(0, 1))
        other.start()
        assert working.wait(60)

    other = threading.Thread(
        target=lambda: reports.append(job.run(Shard(0, 2), working.set, build))
    )
    report = job.run(Shard(1, 2), first, build)
    other.join(60)
    assert reports == [report] and len(built) == 1 and not os.path.exists(job.home)


def test_a_late_shard_finds_the_result_and_its_parts_until_it_looked(job):
    def work():
        assert job.do(1, 2) is None  # another shard ends meanwhile
        job.work(Shard(0, 2))
        assert job.do(1, 2)["counts"] == CHUNKS  # and publishes, run again
        assert not job.unfinished()  # what this one may yet read is there

    assert job.run(Shard(0, 2), work, job.build)["counts"] == CHUNKS
    assert not os.path.exists(job.home)


def test_a_shard_that_was_overtaken_before_it_began_makes_nothing(job):
    class Overtaken(Lines):
        def completed(self):
            if not os.path.exists(self.destination):
                assert job.do()["counts"] == CHUNKS
                return None
            return super().completed()

    late = Overtaken(job.destination, job.report, job.settings)
    assert late.run(Shard(0, 1), lambda: pytest.fail("made"), None)["counts"] == CHUNKS
    assert not os.path.exists(job.home)


def test_without_locks_all_publish_the_same_and_the_parts_stay(job, monkeypatch):
    def no_locks(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    def build(folder):
        assert job.do(0, 1)["counts"] == CHUNKS  # another process publishes first
        return job.build(folder)

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert job.do(build=build) == job.completed()
    assert content(job).startswith("0") and not job.unfinished()
    assert not [name for name in os.listdir(job.directory) if name.startswith("merged")]


def test_a_result_that_cannot_be_built_is_not_published(job):
    def build(folder):
        raise ValueError("line 3 is damaged")

    with pytest.raises(ValueError, match="line 3"):
        job.do(build=build)
    assert not os.path.exists(job.destination) and not job.unfinished()
    assert job.do()["counts"] == CHUNKS


def test_settings_with_which_nothing_was_made_can_be_corrected(job):
    def mistaken():
        raise ValueError("--path: not a model")

    other = Lines(job.destination, job.report, {"--size": 2})
    with pytest.raises(ValueError, match="not a model"):
        job.run(Shard(0, 1), mistaken, job.build)
    other.check_destination(overwrite=False)
    assert job.do(1, 2) is None
    with pytest.raises(ValueError, match="--size: was 1, now is 2"):
        other.check_destination(overwrite=False)
    other.check_destination(overwrite=True)
