"""Trace files are whole or absent."""

import os

import pytest

from fairseq_specdec.errors import UsageError
from fairseq_specdec.trace import Trace, read_traces, write_traces
from fairseq_specdec.trace.recorder import Recorder


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    with pytest.raises(UsageError, match="--trace-path .* is read-only; name another"):
        Recorder(str(tmp_path / "t.jsonl"), None, lambda: True)


def test_reading_names_file_and_line(tmp_path):
    path, trace = tmp_path / "t.jsonl", Trace(1, "gad", {}, ["ä", "\u2028"], ["</s>"], -1.0)
    write_traces(str(path), [trace])
    assert read_traces(str(path)) == [trace]
    path.write_text(path.read_text(encoding="utf-8") + '\n{"half', encoding="utf-8")
    with pytest.raises(UsageError, match=r"t.jsonl, line 3: no trace"):
        read_traces(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="utf-8"):
        read_traces(str(path))
