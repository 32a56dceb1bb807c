"""Trace files are whole or absent, and belong to one process at a time."""

import os
import signal
import subprocess
import sys

import pytest

from fairseq_specdec.trace import Trace, TraceError, TraceFile, read_traces, write_traces

HOLD = """
import fcntl, sys, time
stream = open(sys.argv[1], "w")
fcntl.flock(stream, fcntl.LOCK_EX)
stream.write("left behind, and longer than what is to come\\n" * 99)
stream.flush()
print("held", flush=True)
time.sleep(60)
"""


def trace(number):
    return Trace(number, "gad", {}, ["ä", "\u2028"], ["</s>"], -1.0)


def test_the_name_appears_with_the_last_sentence(tmp_path):
    path = str(tmp_path / "t.jsonl")
    file = TraceFile(path)
    file.add(trace(1))
    file.add(trace(2))
    assert not os.path.exists(path)
    file.publish()
    assert read_traces(path) == [trace(1), trace(2)]
    assert os.listdir(tmp_path) == ["t.jsonl"]
    file.publish()
    file.discard()
    assert len(read_traces(path)) == 2


def test_a_discarded_trace_leaves_what_was_there(tmp_path):
    path = str(tmp_path / "t.jsonl")
    write_traces(path, [trace(7)])
    file = TraceFile(path)
    file.add(trace(1))
    file.discard()
    assert read_traces(path) == [trace(7)]
    assert os.listdir(tmp_path) == ["t.jsonl"]


def test_a_second_writer_is_refused_until_the_first_is_gone(tmp_path):
    path = str(tmp_path / "t.jsonl")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path + ".partial"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TraceError, match="another process is writing it; give each its own"):
            TraceFile(path)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    assert not os.path.exists(path)
    file = TraceFile(path)  # what a killed process left behind is in nobody's way
    file.add(trace(1))
    file.publish()
    assert read_traces(path) == [trace(1)]


def test_a_forked_process_leaves_it_alone(tmp_path):
    path = str(tmp_path / "t.jsonl")
    file = TraceFile(path)
    file.add(trace(1))
    child = os.fork()
    if child == 0:
        file.publish()
        file.discard()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.listdir(tmp_path) == ["t.jsonl.partial"]
    file.publish()
    assert read_traces(path) == [trace(1)]


def test_reading_names_file_and_line(tmp_path):
    path = tmp_path / "t.jsonl"
    write_traces(str(path), [trace(1)])
    path.write_text(path.read_text(encoding="utf-8") + '\n{"half', encoding="utf-8")
    with pytest.raises(TraceError, match=r"t.jsonl, line 3: not JSON"):
        read_traces(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TraceError, match="no UTF-8"):
        read_traces(str(path))
    with pytest.raises(TraceError, match="No such file"):
        read_traces(str(tmp_path / "other"))
