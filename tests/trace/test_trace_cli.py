"""``fairseq-generate --trace-path``, as a user runs it."""

import os
import re

import pytest
from fairseq.data.iterators import CountingIterator
from in_process import run_here
from toy_pair import SENTENCES

from fairseq_specdec.trace import read_traces


def generate(pair, **flags):
    """Run fairseq-generate here, drafting unless another strategy is named; what it printed."""
    given = {
        "task": "translation_specdec", "path": pair / "verifier.pt", "beam": 1, "batch_size": 8,
        "dataset_impl": "raw", "source_lang": "src", "target_lang": "tgt", **flags,
    }  # fmt: skip
    if "strategy" not in given:
        given.update(strategy="gad", drafter_path=pair / "drafter.pt")
    return run_here("generate", pair, **given)[0]


def printed(out):
    """By sentence and kind, what follows the first line of it: of H- that of the best."""
    found = {}
    for kind, number, rest in re.findall(r"^([SHPI])-(\d+)\t(.*)$", out, re.M):
        found.setdefault(int(number), {}).setdefault(kind, rest)
    return found


@pytest.mark.parametrize("flags", [{"print_step": True}, {"strategy": "none", "beam": 4}], ids=str)
def test_the_trace_holds_what_was_printed(pair, tmp_path, flags):
    """Of a beam its best hypothesis."""
    path = tmp_path / "t.jsonl"
    lines = printed(generate(pair, **flags, trace_path=path))
    assert "beam" in flags or lines == printed(generate(pair, **flags))
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
    assert early > SENTENCES or "beam" not in flags
    assert os.listdir(tmp_path) == ["t.jsonl"]


def test_decoding_that_fails_leaves_what_was_there(pair, tmp_path, monkeypatch):
    inner, seen = CountingIterator.__next__, []

    def broken(self):
        seen.append(self)
        if len(seen) > 2:
            raise RuntimeError("no more data")
        return inner(self)

    monkeypatch.setattr(CountingIterator, "__next__", broken)
    path = tmp_path / "t.jsonl"
    path.write_text("of before")
    with pytest.raises(RuntimeError, match="no more data"):
        generate(pair, trace_path=path)
    assert os.listdir(tmp_path) == ["t.jsonl"] and path.read_text() == "of before"
