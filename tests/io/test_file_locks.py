"""A file is locked by one process at a time, also while others rename and remove it."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from fairseq_specdec.compat.user_dir import PACKAGE
from fairseq_specdec.io.file_locks import alone, lock_file, unlock

HOLD = """
import sys
sys.path.insert(0, sys.argv[1])
from file_locks import lock_file
lock_file(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "lock")


def test_the_second_is_refused_until_the_first_unlocks(path):
    first = lock_file(path)
    with pytest.raises(BlockingIOError):
        lock_file(path)
    unlock(first)
    unlock(lock_file(path))


def test_a_process_that_ends_holds_nothing(path):
    folder = os.path.join(PACKAGE, "io")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder, path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError):
            lock_file(path)
        holder.stdin.close()
        unlock(lock_file(path, wait=True))
    assert holder.returncode == 0


def test_without_create_a_file_that_is_missing_stays_missing(path):
    with pytest.raises(FileNotFoundError):
        lock_file(path, create=False)
    assert not os.path.exists(path)
    unlock(lock_file(path))
    unlock(lock_file(path, create=False))


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_file_that_went_away_while_it_was_locked_is_not_taken(path, what, monkeypatch):
    """The lock is worth something only on the file that now has the name."""
    real, calls = fcntl.flock, []

    def flock(handle, operation):
        real(handle, operation)
        calls.append(operation)
        if len(calls) == 1:
            if what == "removed":
                os.remove(path)
            else:
                with open(path + ".new", "w"):
                    os.replace(path + ".new", path)

    monkeypatch.setattr(fcntl, "flock", flock)
    handle = lock_file(path)
    assert len(calls) == 2 and os.path.samestat(os.stat(path), os.fstat(handle))
    monkeypatch.undo()
    unlock(handle)


def test_a_fork_does_not_keep_what_its_parent_unlocks(path):
    handle = lock_file(path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(0)
    try:
        unlock(handle)
        unlock(lock_file(path))
    finally:
        os.write(writer, b"x")
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def test_a_file_system_without_locks_is_named_and_nothing_leaks(path, monkeypatch):
    def no_locks(*arguments):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No locks available"):
        lock_file(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_at_a_time_and_nothing_stays(path):
    with alone(path, "--out: here"):
        holder = f"--out: here is being written by process {os.getpid()} on "
        with pytest.raises(ValueError, match=holder):
            with alone(path, "--out: here"):
                pass
        assert os.path.exists(path)
    assert not os.path.exists(path)
    with alone(path, "--out: here"):
        pass


def test_where_there_are_no_locks_nothing_is_held(path, monkeypatch):
    def no_locks(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with alone(path, "--out: here"):
        with alone(path, "--out: here"):
            pass
