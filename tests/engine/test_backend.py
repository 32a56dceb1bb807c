"""Which backend is chosen, and what is left to torch."""

import logging
from argparse import Namespace

import pytest
import torch
from toy_translation import make_task, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator
from fairseq_specdec.engine import backend
from fairseq_specdec.engine.backend import Backend, NativeBackend, choose_backend, quickest_format
from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.decoder import NativeDecoder
from fairseq_specdec.engine.torch_decoder import TorchDecoder


@pytest.fixture
def without_library(monkeypatch):
    monkeypatch.setenv(library.ENVIRONMENT, "off")


def test_auto_is_native_on_a_processor(with_library):
    chosen = choose_backend("auto", [toy_model()])
    assert isinstance(chosen, NativeBackend) and chosen.number_format == "fp32"
    assert type(choose_backend("torch", [toy_model()])) is Backend


@pytest.mark.parametrize("kind", ["double", "bfloat16"])
def test_models_in_other_formats_run_on_torch(kind, with_library, caplog):
    model = getattr(toy_model("pre_norm", seed=3, updates=1), kind)()
    with caplog.at_level(logging.INFO):
        assert type(choose_backend("auto", [model])) is Backend
    assert "the models are in" in caplog.text
    with pytest.raises(ValueError, match=r"--backend native: the models are in .*--backend torch"):
        choose_backend("native", [model])


def test_an_activation_that_is_not_known_runs_on_torch(with_library, caplog):
    model = toy_model("post_norm", seed=5, updates=1)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.activation_fn = torch.sigmoid
    with caplog.at_level(logging.INFO):
        assert type(choose_backend("auto", [model])) is Backend
    assert caplog.text.count("sigmoid") == 1


def test_without_the_library(without_library, caplog):
    with caplog.at_level(logging.INFO):
        assert type(choose_backend("auto", [toy_model()])) is Backend
    assert "off" in caplog.text
    with pytest.raises(ValueError, match="--verifier-dtype bf16.*leave out --backend torch"):
        choose_backend("torch", [toy_model()], "bf16")
    with pytest.raises(ValueError, match="--backend native"):
        choose_backend("native", [toy_model()])
    with pytest.raises(ValueError, match="--verifier-dtype int8: needs the native backend, and"):
        choose_backend("auto", [toy_model()], "int8")


def test_an_engine_that_was_not_built_is_reported_once(monkeypatch, caplog, without_library):
    """With what it costs and the command that mends it; not where the user or the model decides."""
    caplog.set_level(logging.WARNING)
    backend.tell_once.cache_clear()
    choose_backend("auto", [toy_model()])
    monkeypatch.setattr(backend, "load", lambda: None)
    monkeypatch.setattr(backend, "why_not", lambda: library.not_built(library.FOLDER))
    monkeypatch.delenv(library.ENVIRONMENT)
    choose_backend("torch", [toy_model()])
    choose_backend("auto", [toy_model("pre_norm", seed=3, updates=1).double()])
    assert not caplog.records
    for _ in range(2):
        assert type(choose_backend("auto", [toy_model()])) is Backend
    (record,) = caplog.records
    message = record.getMessage()
    assert record.levelname == "WARNING" and "times slower" in message and "g++" in message
    assert f"pip install --force-reinstall --no-deps -e {library.FOLDER.parents[2]}" in message
    backend.tell_once.cache_clear()


def test_the_quickest_format_is_one_that_the_processor_multiplies(monkeypatch, without_library):
    assert quickest_format("auto", [toy_model()]) is None
    monkeypatch.setattr(backend, "load", lambda: Namespace(variant="aarch64"))
    assert quickest_format("auto", [toy_model()]) is None
    monkeypatch.setattr(backend, "load", lambda: Namespace(variant="x86_64_v3"))
    assert quickest_format("auto", [toy_model()]) == "int8"
    assert quickest_format("torch", [toy_model()]) is None
    assert quickest_format("auto", [toy_model(seed=3, updates=1).bfloat16()]) is None


def test_a_stack_that_is_not_run_is_left_to_torch_alone(with_library, monkeypatch, caplog):
    model = toy_model()
    native = choose_backend("auto", [model])
    assert isinstance(native.decoder(model.decoder), NativeDecoder)
    monkeypatch.setattr(backend, "refusal", lambda stack: "it is of no known make")
    with caplog.at_level(logging.INFO):
        assert isinstance(native.decoder(model.decoder), TorchDecoder)
    assert "a decoder runs on the torch backend: it is of no known make" in caplog.text


def test_one_backend_frees_the_weights_of_all_that_it_reads(with_library):
    """A drafter in a format of its own is freed as the verifier is."""
    for frees in (False, True):
        native = choose_backend("native", [toy_model()], frees=frees)
        assert native.frees is native.packing("int8").frees is frees


def test_a_generator_sets_them_in_torch_and_in_the_library(monkeypatch, with_library):
    counts, before, words = [], torch.get_num_threads(), make_task().tgt_dict
    monkeypatch.setattr(library.Library, "set_threads", lambda self, count: counts.append(count))
    try:
        for count in (3, None):
            settings = decoding_settings(threads=count)
            build_generator([toy_model(updates=1)], words, words, Namespace(beam=1), settings)
            assert torch.get_num_threads() == 3 and counts == [3]
    finally:
        torch.set_num_threads(before)
