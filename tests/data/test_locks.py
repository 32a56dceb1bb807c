"""Several processes and one destination: who may work beside whom, and what a dead one leaves."""

import errno
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from distilling import KEEP

from fairseq_specdec.compat.user_dir import PACKAGE
from fairseq_specdec.data import distill as command
from fairseq_specdec.data import locks
from fairseq_specdec.data.locks import at_work, remove_unless_at_work
from fairseq_specdec.data.plan import Shard
from fairseq_specdec.data.teacher import Teacher

HOLD = """
import sys, time
from fairseq_specdec.data.locks import at_work
from fairseq_specdec.data.plan import Shard
with at_work("OUT", sys.argv[1], "a", Shard(0, 2)):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(tmp_path):
    return str(tmp_path / "out.parts")


@pytest.mark.parametrize(
    "digest, shard, fits",
    [
        ("a", Shard(1, 2), True),
        ("a", Shard(0, 2), False),
        ("a", Shard(1, 4), False),
        ("a", Shard(0, 1), False),
        ("b", Shard(1, 2), False),
        ("b", Shard(0, 2), False),
    ],
)
def test_only_other_shards_of_the_same_run_work_beside_one(home, digest, shard, fits):
    with at_work("OUT", home, "a", Shard(0, 2)):
        if fits:
            with at_work("OUT", home, digest, shard):
                assert len(os.listdir(home)) == 3  # the guard and two locks
        else:
            who = rf"process {os.getpid()} on {re.escape(socket.gethostname())}, since 20\d\d-.*"
            with pytest.raises(ValueError, match=f"^--dest: OUT is .* {who} .shard 0/2.; wait"):
                with at_work("OUT", home, digest, shard):
                    raise AssertionError("two at work")
        assert sorted(os.listdir(home)) == ["guard.lock", "shard-0-of-2.lock"]
    assert not os.path.exists(home)


def test_a_killed_process_holds_nothing(home):
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(PACKAGE))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, home], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=f"process {holder.pid} on"):
            with at_work("OUT", home, "a", Shard(0, 2)):
                raise AssertionError("two at work")
        remove_unless_at_work(home)
        assert os.path.isfile(os.path.join(home, "shard-0-of-2.lock"))
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert os.path.isfile(os.path.join(home, "shard-0-of-2.lock"))
    with at_work("OUT", home, "b", Shard(0, 1)):
        assert sorted(os.listdir(home)) == ["guard.lock", "shard-0-of-1.lock"]
    assert not os.path.exists(home)


def test_work_that_is_not_done_stays(home):
    with at_work("OUT", home, "a", Shard(0, 1)):
        os.mkdir(os.path.join(home, "0123"))
    assert os.path.isdir(os.path.join(home, "0123"))
    remove_unless_at_work(home)
    assert not os.path.exists(home)


def test_many_processes_and_one_lock(home, tmp_path):
    """Entering and leaving at once: never two inside, and each gets in or learns who is."""
    inside, children = str(tmp_path / "inside"), []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                entered = 0
                end = time.monotonic() + 60
                while entered < 25 and time.monotonic() < end:
                    try:
                        with at_work("OUT", home, "a", Shard(0, 1)):
                            os.mkdir(inside)
                            entered += 1
                            os.rmdir(inside)
                    except ValueError:
                        continue
                status = 0 if entered == 25 else 2
            finally:
                os._exit(status)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert not os.path.exists(home)


def test_without_locks_a_warning_and_no_more(home, monkeypatch, caplog):
    def no_locks(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with at_work("OUT", home, "a", Shard(0, 1)), at_work("OUT", home, "a", Shard(0, 1)):
        pass
    remove_unless_at_work(home)  # some may be
    assert os.path.isdir(home) and "has no locks; see to it" in caplog.text


# ---- in the command ----------------------------------------------------------------------------


def test_the_second_command_names_who_is_at_work(reversal_data, teacher, tmp_path, monkeypatch):
    words = [str(w) for w in (reversal_data, "--path", teacher, "--dest", tmp_path / "out", *KEEP)]
    messages, decode = [], Teacher.decode

    def meanwhile(self, sample):
        if not messages:
            messages.append("")  # once
            with pytest.raises(SystemExit) as caught:
                command.cli_main(words)
            messages[0] = str(caught.value)
        return decode(self, sample)

    monkeypatch.setattr(Teacher, "decode", meanwhile)
    command.cli_main(words)
    (line,) = messages
    assert line.startswith(f"specdec-distill: error: --dest: {tmp_path / 'out'} is being written")
    assert f"process {os.getpid()} on " in line and "\n" not in line
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_finished_corpus_leaves_those_at_work_alone(
    reversal_data, teacher, undisturbed, distill, tmp_path
):
    """Another process is making it anew, with other settings and --overwrite."""
    shutil.copytree(str(undisturbed), str(tmp_path / "out"))
    home = str(tmp_path / "out.parts")
    with at_work("OUT", home, "another", Shard(0, 1)):
        os.mkdir(os.path.join(home, "0123"))
        distill(reversal_data, tmp_path / "out", teacher, *KEEP)
        assert os.path.isdir(os.path.join(home, "0123"))
    assert locks.GUARD in os.listdir(home)
