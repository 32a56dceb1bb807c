"""``fairseq-generate --trace-path``, as a user runs it."""

import contextlib
import importlib
import io
import os
import sys
from unittest import mock

import pytest
from fairseq.data.iterators import CountingIterator
from toy_pair import SENTENCES, write_pair

import fairseq_specdec
from fairseq_specdec.trace import read_traces

PLUGIN = os.path.abspath(fairseq_specdec.__path__[0])


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


def words_of(pair, *more):
    return [
        str(pair), "--user-dir", PLUGIN, "--task", "translation_specdec", "--path",
        str(pair / "verifier.pt"), "--beam", "1", "--cpu", "--dataset-impl", "raw", "-s", "src",
        "-t", "tgt", "--batch-size", "8", "--num-workers", "0", *map(str, more),
    ]  # fmt: skip


def generate(pair, *more):
    """Run fairseq-generate here; what it printed."""
    out = io.StringIO()
    words = ["fairseq-generate", *words_of(pair, *more)]
    with contextlib.redirect_stdout(out), mock.patch.object(sys, "argv", words):
        importlib.import_module("fairseq_cli.generate").cli_main()
    return out.getvalue()


def drafted(pair, *more):
    return generate(pair, "--strategy", "gad", "--drafter-path", pair / "drafter.pt", *more)


def printed(out):
    """By sentence and kind, what follows the first line of it: of H- that of the best."""
    found = {}
    for line in out.splitlines():
        head, _, rest = line.partition("\t")
        kind, _, number = head.partition("-")
        if kind in ("S", "H", "P", "I") and number.isdigit():
            found.setdefault(int(number), {}).setdefault(kind, rest)
    return found


@pytest.mark.parametrize("flags", [["--print-step"], ["--strategy", "none", "--beam", 4]])
def test_the_trace_holds_what_was_printed(pair, tmp_path, flags):
    """Of a beam its best hypothesis."""
    path = tmp_path / "t.jsonl"
    run = generate if "--strategy" in flags else drafted
    lines = printed(run(pair, *flags, "--trace-path", path))
    assert lines == printed(run(pair, *flags))
    traces = {trace.id: trace for trace in read_traces(str(path))}
    assert sorted(traces) == sorted(lines) == list(range(SENTENCES))
    early = 0
    for number, trace in traces.items():
        assert trace.source == [*lines[number]["S"].split(), "</s>"]
        score, words = lines[number]["H"].split("\t")
        assert trace.output == [*words.split(), "</s>"]
        assert trace.score == pytest.approx(float(score) * 0.6931472, abs=1e-4)
        if trace.strategy == "gad":
            assert len(trace.iterations) == int(lines[number]["I"])
            assert trace.settings["block_size"] == 4
            continue
        assert trace.settings["beam"] == 4
        position = 0
        for part in trace.iterations:
            assert part.position == position and part.draft == [] and part.own is None
            position += len(part.agreed)
        assert sum((part.agreed for part in trace.iterations), []) == trace.output
        early += sum(len(part.agreed) for part in trace.iterations[:-1])
    assert early > SENTENCES or "--beam" not in flags
    assert os.listdir(tmp_path) == ["t.jsonl"]


@pytest.mark.parametrize("batch", [0, 2])
def test_decoding_that_fails_leaves_nothing(pair, tmp_path, monkeypatch, batch):
    inner, seen = CountingIterator.__next__, []

    def broken(self):
        seen.append(self)
        if len(seen) > batch:
            raise RuntimeError("no more data")
        return inner(self)

    monkeypatch.setattr(CountingIterator, "__next__", broken)
    with pytest.raises(RuntimeError, match="no more data"):
        drafted(pair, "--trace-path", tmp_path / "t.jsonl")
    assert os.listdir(tmp_path) == []


def test_refused_before_a_model_is_loaded(pair, tmp_path):
    with mock.patch("fairseq.checkpoint_utils.load_model_ensemble", side_effect=AssertionError):
        with pytest.raises(ValueError, match="--trace-path .*: no such directory"):
            generate(pair, "--trace-path", tmp_path / "no" / "t.jsonl")
