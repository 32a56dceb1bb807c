"""Trace files are whole or absent."""

import os

import pytest

from fairseq_specdec.errors import UsageError
from fairseq_specdec.trace import Trace, read_traces, write_traces
from fairseq_specdec.trace.recorder import Recorder


def trace(number):
    return Trace(number, "gad", {}, ["ä", "\u2028"], ["</s>"], -1.0)


def test_decoding_that_fails_leaves_what_was_there(tmp_path):
    path = str(tmp_path / "t.jsonl")
    write_traces(path, [trace(7)])
    recorder = Recorder(path, None, lambda: True)
    recorder.close(failed=True)
    recorder.close()  # it is closed already
    assert read_traces(path) == [trace(7)] and os.listdir(tmp_path) == ["t.jsonl"]


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    with pytest.raises(UsageError, match="--trace-path .*: cannot be written; name another"):
        Recorder(str(tmp_path / "t.jsonl"), None, lambda: True)


def test_reading_names_file_and_line(tmp_path):
    path = tmp_path / "t.jsonl"
    write_traces(str(path), [trace(1)])
    assert read_traces(str(path)) == [trace(1)]
    path.write_text(path.read_text(encoding="utf-8") + '\n{"half', encoding="utf-8")
    with pytest.raises(UsageError, match=r"t.jsonl, line 3: no trace"):
        read_traces(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="utf-8"):
        read_traces(str(path))
