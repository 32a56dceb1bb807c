"""A file is locked by one process at a time, and nothing of it stays."""

import os
import subprocess
import sys

import pytest

from fairseq_specdec.io.file_locks import alone

HOLD = """
import sys
from fairseq_specdec.io.file_locks import alone
with alone(sys.argv[1], ""):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "lock")


def test_one_at_a_time_and_nothing_stays(path):
    for _ in range(2):
        with alone(path, "--out: here"):
            holder = "--out: here is being written by another process; wait until"
            with pytest.raises(ValueError, match=holder), alone(path, "--out: here"):
                pass
            assert os.path.exists(path)
        assert not os.path.exists(path)


def test_a_process_that_is_killed_holds_nothing(path):
    words = [sys.executable, "-c", HOLD, path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="another process"), alone(path, ""):
            pass
        holder.kill()
        holder.wait()
        with alone(path, ""):
            pass
    assert not os.path.exists(path)
