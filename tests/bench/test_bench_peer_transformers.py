"""fairseq's Transformers as classes of transformers, where it is installed."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest
import torch
from toy_translation import (
    SHAPES,
    assert_diverse,
    make_sample,
    make_task,
    sentences,
    toy_model,
)

from fairseq_specdec.bench import peer_transformers
from fairseq_specdec.bench.timing import stock
from fairseq_specdec.bench.transformers_weights import CLASSES, check_same, represent

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the extra peers"
)
KINDS = {
    "pre_norm": CLASSES[True, False],
    "layernorm_embedding": CLASSES[False, True],
}
FITTING = [shape for shape in SHAPES if shape not in ("narrow_output", "quant_noise")]


@pytest.fixture(scope="module")
def task():
    return make_task()


def engine(shape, task, folder, threads=1, **generation):
    model = toy_model(shape)
    workload = SimpleNamespace(task=task, models=lambda paths: [model])
    peer_transformers.convert(workload, "v.pt", str(folder))
    return peer_transformers.Engine(str(folder), "float32", False, threads, generation)


def outputs(engine, sources, limit=200, **row):
    return engine.tokens(engine.decode(engine.prepare(sources), limit, **row))


def stock_outputs(task, model, sample, beam, **flags):
    system = stock(task, [model], beam, **flags)
    system.decode(sample, 0, None)
    return [system.tokens[n] for n in range(len(system.tokens))]


@needs_transformers
@pytest.mark.parametrize("shape", FITTING)
def test_outputs_equal_stock_ones(shape, task, tmp_path):
    sample = make_sample(sentences(12, seed=3))
    rows = [[t for t in row if t != 1] for row in sample["net_input"]["src_tokens"].tolist()]
    limit = 60
    made = engine(shape, task, tmp_path)
    assert type(made.model).__name__ == KINDS.get(shape, "MarianMTModel")
    greedy = stock_outputs(task, toy_model(shape), sample, 1, max_len_b=limit)
    assert_diverse(greedy)
    assert outputs(made, rows, limit, beam=1) == greedy
    assert outputs(made, rows, limit, beam=1, looked_up=4) == greedy
    wide = stock_outputs(task, toy_model(shape), sample, 5, max_len_b=limit)
    same = [a == b for a, b in zip(outputs(made, rows, limit, beam=5), wide)]
    assert sum(same) >= 10, "beam searches may break ties apart, and no more"


@needs_transformers
def test_norms_before_the_blocks_and_behind_the_embedding(task, tmp_path, monkeypatch):
    both = {**SHAPES["pre_norm"], **SHAPES["layernorm_embedding"], "activation_fn": "gelu_accurate"}
    monkeypatch.setitem(SHAPES, "both", both)
    fairseqs = toy_model("both", updates=1)
    monkeypatch.setattr(sys.modules[__name__], "toy_model", lambda shape: fairseqs)
    made = engine("both", task, tmp_path)
    assert type(made.model).__name__ == CLASSES[True, True]
    sample = make_sample(sentences(1, seed=3))["net_input"]
    read = torch.tensor([[2, 5, 9, 7]])
    with torch.no_grad():
        wanted = fairseqs(prev_output_tokens=read, **sample)[0]
        given = made.model(input_ids=sample["src_tokens"], decoder_input_ids=read).logits
    torch.testing.assert_close(given, wanted, atol=1e-4, rtol=1e-4)
    assert wanted.std() > 0.1


@needs_transformers
def test_a_limit_cuts_as_stock_does(task, tmp_path):
    sample = make_sample(sentences(6, seed=3))
    rows = [[t for t in row if t != 1] for row in sample["net_input"]["src_tokens"].tolist()]
    greedy = stock_outputs(task, toy_model(), sample, 1, max_len_b=3)
    assert max(map(len, greedy)) == 4
    assert outputs(engine("post_norm", task, tmp_path), rows, 3, beam=1) == greedy


def test_what_no_class_computes_is_refused_by_name(task):
    with pytest.raises(ValueError, match="a decoder whose input or output has another width"):
        represent(toy_model("narrow_output"), 1, 2)
    with pytest.raises(ValueError, match="--quant-noise-pq"):
        represent(toy_model("quant_noise"), 1, 2)
    other = SimpleNamespace()
    with pytest.raises(ValueError, match="SimpleNamespace is no plain Transformer"):
        represent(other, 1, 2)


def test_weights_that_went_astray_are_named():
    one, two = torch.zeros(2), torch.ones(2)
    assert check_same({"a": one, "b": two}, {"a": one, "b": two}) == ()
    assert check_same({"a": one, "b": one}, {"a": one, "b": two}) == ("b",)
    assert check_same({"a": one}, {"a": one, "b": two}) == ("b",)
    assert check_same({"a": one, "b": two}, {"a": one}) == ("b",)
