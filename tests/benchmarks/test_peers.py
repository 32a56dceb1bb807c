"""Other engines, where they are installed, and operations."""

import importlib.util
import os
import sys
from types import SimpleNamespace

import engines
import isa
import peers
import pytest
from in_process import one_thread
from toy_strategies import make_generator
from toy_translation import make_sample, sentences

from fairseq_specdec.bench import timing


@pytest.fixture
def run(pair):
    """Run the command on the toy pair; its results."""

    def command(*flags):
        line = [pair, "--path", pair / "verifier.pt", "-s", "src", "-t", "tgt", "--cpu"]
        line += ["--warmup", 0, "--dataset-impl", "raw", *flags]
        with one_thread():
            return peers.main([str(part) for part in line], lambda text: None)

    return command


@pytest.mark.parametrize("name", engines.ENGINES)
def test_the_same_checkpoint_decodes_alike(run, name):
    engine = engines.ENGINES[name]
    if not all(map(importlib.util.find_spec, engine.needs)):
        pytest.skip("needs benchmarks/requirements.txt")
    result = run("--peers", name, "--batch-size", "1,5")
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


def test_operations_are_those_of_the_matrices_of_each_step():
    """Kim et al. 2023, Figure 8."""
    made = make_generator("sps")
    system = timing.System("sps", made, made.models, made.stats)
    batches = [make_sample([source]) for source in sentences(6, seed=7)]
    for number, batch in enumerate(batches):
        batch["id"] += number
    timing.run_paired([system], batches, warm_up=1, repeats=2)
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
    assert peers.operations(system, "gad") == {}


def test_an_instruction_set_is_held(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["peers.py", "--isa=avx2"])
    monkeypatch.setattr(isa, "os", SimpleNamespace(environ={}))
    isa.hold()
    assert isa.os.environ == isa.VARIABLES["avx2"] and "x" not in os.environ
