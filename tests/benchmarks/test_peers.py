"""Other engines, memory and pictures, where they are installed."""

import importlib.util
import os
import sys
from types import SimpleNamespace

import engines
import isa
import peers
import plots
import pytest
import torch
from toy_pair import write_pair
from toy_strategies import make_generator
from toy_translation import make_sample, sentences

from fairseq_specdec.bench import timing


def missing(*names):
    return any(importlib.util.find_spec(name) is None for name in names)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def run(pair):
    """Run the command on the toy pair: (its results, what it printed)."""
    threads = torch.get_num_threads()

    def command(*flags):
        printed = []
        line = [pair, "--path", pair / "verifier.pt", "-s", "src", "-t", "tgt", "--cpu"]
        line += ["--warmup", 0, "--dataset-impl", "raw"]
        result = peers.main([str(part) for part in [*line, *flags]], printed.append)
        return result, "".join(printed)

    yield command
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", engines.ENGINES)
def test_the_same_checkpoint_decodes_alike(run, name):
    engine = engines.ENGINES[name]
    if missing(*engine.needs):
        pytest.skip("needs benchmarks/requirements.txt")
    result, _ = run("--peers", name, "--batch-size", "1,5")
    for part in result["runs"]:
        rows = {row["system"]: row for row in part["rows"]}
        assert len(rows) == 2 + len(engine.kinds) * (1 if engine.widest == 1 else 2)
        same = rows[f"{engine.title} float32 beam 1"]
        assert same["identical_percent"] == 100 and same["iter"] is None and same["ms_mean"] > 0
    assert name in result["provenance"]["versions"] and result["warnings"] == []


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--peers", "ctranslate"], "--peers ctranslate: expected different ones of ctranslate2"),
        (["--peers", "ctranslate2", "--prefix-size", 2], "--prefix-size has no counterpart in CT"),
        (["--peers", "onnxruntime"], "ONNX Runtime needs nothing; install"),
    ],
)
def test_mistakes_are_named_before_a_model_is_loaded(run, flags, message, monkeypatch):
    monkeypatch.setattr(engines.OnnxRuntime, "needs", ("nothing",))
    monkeypatch.setattr(engines.CTranslate2, "needs", ())
    monkeypatch.setattr(peers, "Bench", None)
    with pytest.raises(ValueError, match=message):
        run(*flags)


@pytest.mark.slow
def test_memory_is_that_of_each_system_alone(run):
    result, printed = run("--memory", "--limit", 2, "--batch-size", "1,2")
    one, two = ([row["memory_mb"] for row in part["rows"]] for part in result["runs"])
    before = [row["memory_before_mb"] for row in result["runs"][0]["rows"]]
    # Linux counts a process' pages by batches of a few hundred kilobytes.
    assert all(50 < least <= low + 1 <= high + 2 for least, low, high in zip(before, one, two))
    assert " MB |" in printed and peers.MEMORY in printed


def test_pictures_are_drawn(run, tmp_path):
    if missing("matplotlib"):
        pytest.skip("needs matplotlib")
    flags = ["--system", "a$: --strategy iad", "--sweep", "block_size=2,4,8"]
    result, _ = run(*flags, "--limit", 2, "--batch-size", "1,2", "--plots", tmp_path)
    names = "latency_throughput speed_by_batch speed_up_distribution trade_off_1"
    assert {path.stem for path in tmp_path.glob("*.png")} == set(names.split())
    assert all(picture.png[:4] == b"\x89PNG" for picture in plots.draw(result))


def measured(case):
    """A system that decoded 6 sentences twice."""
    made = make_generator(case)
    system = timing.System(case, made, made.models, made.stats)
    batches = [make_sample([source]) for source in sentences(6, seed=7)]
    for number, batch in enumerate(batches):
        batch["id"] += number
    timing.run_paired([system], batches, warm_up=1, repeats=2)
    return system


def test_operations_are_those_of_the_matrices_of_each_step():
    """Kim et al. 2023, Figure 8."""
    system = measured("sps")
    decoder, drafter = system.models[0].decoder, system.generator.drafter.model.decoder
    width, entries = decoder.embed_dim, decoder.output_projection.out_features
    (hidden,) = {layer.fc1.out_features for layer in decoder.layers}
    # self-attention 4, cross-attention's query and output 2
    layer = 6 * width * width + 2 * width * hidden
    big = len(decoder.layers) * layer + entries * width
    assert peers.step_weights(decoder) == big
    stats, found = system.stats, peers.operations(system, "sps")
    drafting = peers.step_weights(drafter) * stats.draft_steps
    assert found["multiply_adds_m"] == pytest.approx((big * stats.scored + drafting) / 12e6)
    assert found["weights_read_m"] == pytest.approx((big * stats.iterations + drafting) / 12e6)
    assert peers.operations(measured("gad"), "gad") == {}


def test_an_instruction_set_is_held(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["peers.py", "--isa=avx2"])
    monkeypatch.setattr(isa, "os", SimpleNamespace(environ={}))
    isa.hold()
    assert isa.os.environ == isa.VARIABLES["avx2"] and "x" not in os.environ
