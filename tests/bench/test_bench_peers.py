"""CTranslate2 in the same run, where it is installed."""

import importlib.util
import os
import tempfile
import threading

import pytest

from fairseq_specdec.bench import memory, peers
from fairseq_specdec.bench.usage import until_at_rest
from fairseq_specdec.bench.workload import BenchError

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="needs the extra peers"
)

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the extra peers"
)


@needs_ctranslate2
@pytest.mark.parametrize("sizes", ["1,5"])
def test_the_converted_checkpoint_decodes_alike(bench, sizes):
    words = ["--peers", "--peer-engines", "ctranslate2", "--warmup", 0, "--batch-size", sizes]
    result, _ = bench(*words)
    for run in result["runs"]:
        rows = {row["system"]: row for row in run["rows"]}
        assert len(rows) == 6
        same = rows["CTranslate2 float32 beam 1"]
        assert same["identical_percent"] == 100 and same["iter"] is None
        beam = rows["CTranslate2 float32 beam 5"]
        assert beam["bleu"] == pytest.approx(rows["fairseq beam 5"]["bleu"], abs=3)
        assert rows["CTranslate2 int8 beam 1"]["bleu"] > 0.8 * same["bleu"]
        assert all(row["ms_mean"] > 0 for row in rows.values())
    assert "ctranslate2" in result["provenance"]["versions"]
    assert result["warnings"] == []


@needs_ctranslate2
def test_the_memory_of_an_engine_is_its_own_process(pair):
    words = [pair.data, "--path", pair.v, "-s", "src", "-t", "tgt", "--cpu", "--limit", "2"]
    words += ["--peers", "--peer-engines", "ctranslate2"]
    found = memory.measure(3, words)
    assert 2**20 < found["before"] < found["peaks"]["1"]


@needs_transformers
def test_transformers_decodes_alike(bench):
    words = ["--peers", "--peer-engines", "transformers", "--warmup", 0, "--batch-size", "5"]
    result, _ = bench(*words)
    rows = {row["system"]: row for row in result["runs"][0]["rows"]}
    for name in ("beam 1", "prompt lookup"):
        assert rows[f"transformers float32 {name}"]["identical_percent"] == 100
    wide = rows["transformers float32 beam 5"]["bleu"]
    assert wide == pytest.approx(rows["fairseq beam 5"]["bleu"], abs=3)
    assert "transformers" in result["provenance"]["versions"]


@needs_ctranslate2
@pytest.mark.parametrize(
    "words, message",
    [
        (["--prefix-size", 2], "--prefix-size has no counterpart"),
        (["--temperature", 2], "--temperature has no counterpart"),
    ],
)
def test_flags_without_a_counterpart_are_refused(bench, words, message):
    with pytest.raises(BenchError, match=message):
        bench("--peers", *words)


@needs_ctranslate2
def test_ensembles_are_refused(bench, pair):
    with pytest.raises(BenchError, match="no ensembles"):
        bench("--peers", path=f"{pair.v}:{pair.w}")


def test_peers_that_are_not_installed_are_an_error(bench, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None)
    with pytest.raises(BenchError, match="--peers: needs ctranslate2 or transformers; install"):
        bench("--peers")


@pytest.mark.parametrize(
    "words, message",
    [
        (["--peers", "--peer-engines", "marian"], "--peer-engines marian: choose"),
        (["--peers", "--peer-engines", "ctranslate2,"], "--peer-engines ctranslate2,: choose"),
        (["--peer-engines", "ctranslate2"], "--peer-engines ctranslate2: belongs to --peers"),
    ],
)
def test_mistaken_engines_are_named(bench, words, message):
    with pytest.raises(BenchError, match=message):
        bench(*words)


TITLE = "X"  # this file is an engine's module


class Failing:
    """An engine that cannot go on."""

    def __init__(self, how):
        self.how = how
        if how == "at the start":
            raise ValueError("no such format")

    def prepare(self, rows):
        if self.how == "dying":
            os.write(2, b"out of memory")
            os._exit(3)
        raise RuntimeError("too long")


def version():
    return "1.0"


Engine = Failing


@pytest.mark.parametrize(
    "how, message",
    [
        ("at the start", "--peers: X toy: ValueError: no such format"),
        ("in between", "--peers: X toy: RuntimeError: too long"),
        ("dying", r"--peers: X toy: its process ended: (.|\n)*out of memory"),
    ],
)
def test_an_engine_that_fails_is_named_and_its_process_ends(how, message, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.abspath(__file__)))
    monkeypatch.setitem(peers.ENGINES, "toy", "test_bench_peers")
    folder = tempfile.TemporaryDirectory(dir=str(tmp_path))
    workers = []
    with pytest.raises(BenchError, match=message):
        workers.append(peers.start("toy", "toy", {"how": how}, folder))
        assert workers[0].version == "1.0" and workers[0].before > 2**20
        workers[0].child.call(f"{peers.WORKER}:decode", rows=[[4, 2]], limit=9, row={})
    for worker in workers:
        worker.close()
        assert worker.child.process.returncode is not None
        assert os.listdir(tmp_path) == []


def test_a_spinning_thread_is_waited_for():
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        assert not until_at_rest(0.2)
    finally:
        stop.set()
        thread.join()
    assert until_at_rest(60)
