"""Other engines in the same run, where they are installed."""

import importlib.util
import os
import signal
import threading

import pytest
import torch

from fairseq_specdec.bench import memory, peers, session
from fairseq_specdec.bench.child import Child
from fairseq_specdec.bench.engines import ENGINES
from fairseq_specdec.bench.usage import until_at_rest

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="needs the extra bench-peers"
)


@needs_ctranslate2
@pytest.mark.parametrize("sizes", ["1,5"])
def test_the_converted_checkpoint_decodes_alike(bench, sizes):
    words = ["--peers", "--warmup", 0, "--batch-size", sizes]
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
    words += ["--peers"]
    measured = memory.measure(3, words)
    assert 2**20 < measured["before"] < measured["peaks"]["1"]


@needs_ctranslate2
@pytest.mark.parametrize(
    "words, message",
    [
        (["--prefix-size", 2], "--prefix-size has no counterpart"),
        (["--temperature", 2], "--temperature has no counterpart"),
    ],
)
def test_flags_without_a_counterpart_are_refused(bench, words, message):
    with pytest.raises(ValueError, match=message):
        bench("--peers", *words)


@needs_ctranslate2
def test_ensembles_are_refused(bench, pair):
    with pytest.raises(ValueError, match="no ensembles"):
        bench("--peers", path=f"{pair.v}:{pair.w}")


def test_peers_that_are_not_installed_are_an_error(bench, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None)
    with pytest.raises(ValueError, match="--peers: CTranslate2 needs ctranslate2; install"):
        bench("--peers")


@pytest.mark.parametrize("name", ["onnxruntime", "transformers"])
def test_converted_for_hugging_face_it_decodes_alike(name, bench):
    engine = ENGINES[name]
    if any(importlib.util.find_spec(each) is None for each in engine.needs):
        pytest.skip("needs the extra bench-peers")
    result, _ = bench("--peers", name, "--warmup", 0, "--batch-size", "1,5")
    for run in result["runs"]:
        rows = {row["system"]: row for row in run["rows"]}
        assert rows[f"{engine.title} float32 beam 1"]["identical_percent"] == 100
        if engine.widest > 1:
            assert rows[f"{engine.title} float32 beam 5"]["identical_percent"] >= 90
    assert name in result["provenance"]["versions"]


@pytest.mark.parametrize("text", ["ctranslate", "ctranslate2,ctranslate2", "data-bin/folder"])
def test_unknown_engines_are_refused(text, bench):
    with pytest.raises(ValueError, match=f"--peers {text}: expected different ones of ctranslate2"):
        bench("--peers", text)


def test_an_instruction_set_is_held_from_the_start(bench):
    with pytest.raises(ValueError, match="--isa avx2: must be set before torch is loaded"):
        bench("--isa", "avx2")


def test_a_checkpoint_that_the_engine_cannot_represent_is_named(bench, monkeypatch):
    def call_once(title, function, **arguments):
        raise ValueError(f"{title}: no such architecture")

    monkeypatch.setattr(peers, "call_once", call_once)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: name)
    with pytest.raises(ValueError, match="--peers: CTranslate2 cannot .* no such architecture"):
        bench("--peers")


@pytest.mark.slow
def test_peers_run_on_the_threads_and_processors_of_this_process(pair, monkeypatch):
    orders, threads = [], torch.get_num_threads()
    ready = {"version": "1", "before": 1}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: name)
    monkeypatch.setattr(peers, "call_once", lambda *a, **more: None)
    monkeypatch.setattr(Child, "call", lambda self, *a, **order: orders.append(order) or ready)
    here = os.sched_getaffinity(0)
    line = [pair.data, "--path", pair.v, "-s", "src", "-t", "tgt", "--cpu", "--peers"]
    os.sched_setaffinity(0, {min(here)})
    try:
        asked = session.read([*line, "--threads", "2"])
        workload = asked.workload()
        systems = [make(workload) for _, make in asked.makers()]
        children = [s.child for s in systems if isinstance(s, peers.PeerSystem)]
        on = [os.sched_getaffinity(child.process.pid) for child in children]
    finally:
        os.sched_setaffinity(0, here)
        torch.set_num_threads(threads)
        peers.close(systems)
    assert on == [{min(here)}] * 4
    assert [order["threads"] for order in orders] == [2, 2], "a process for each number format"


def fail():
    raise RuntimeError("too long")


def die():
    os.write(2, b"out of memory")
    os._exit(3)


def be_killed():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "function, message",
    [
        ("fail", "a peer: RuntimeError: too long"),
        pytest.param(
            "die",
            r"a peer: its process ended with status 3: (.|\n)*out of memory",
            marks=pytest.mark.slow,
        ),
        ("be_killed", r"a peer: its process was killed by SIGKILL, as for want of memory: "),
    ],
)
def test_a_process_that_fails_is_named_and_ends(function, message, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.abspath(__file__)))
    child = Child("a peer")
    with pytest.raises(ValueError, match=message):
        child.call(f"test_bench_peers:{function}")
    child.close()
    assert child.process.returncode is not None


def test_a_spinning_thread_is_waited_for():
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        # Others may have the core for a while.
        assert not all(until_at_rest(0.2) for _ in range(5))
    finally:
        stop.set()
        thread.join()
    assert until_at_rest(60)
