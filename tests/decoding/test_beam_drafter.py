"""Which drafters serve a beam search, and what the log says of the others."""

import logging

import pytest

from fairseq_specdec.decoding.beam.drafter import beam_drafter
from fairseq_specdec.decoding.options import DecodingOptions
from fairseq_specdec.drafting import Drafter, NoDrafter
from fairseq_specdec.engine.backend import TORCH, NativeBackend


class ForOne(Drafter):
    """Drafts for one hypothesis."""


class Model(Drafter):
    """Forecasts with a model."""

    for_beams = True


class Copies(Model):
    """Needs no model."""

    runs_model = False


NATIVE = NativeBackend(library=None)


def chosen(drafter, backend=TORCH, **settings):
    options = DecodingOptions("gad", beam=4, **settings)
    return beam_drafter(drafter, options, backend)


@pytest.mark.parametrize("backend", [TORCH, NATIVE], ids=["torch", "native"])
def test_a_drafter_without_a_model_always_serves(backend, caplog):
    drafter = Copies()
    with caplog.at_level(logging.INFO):
        assert chosen(drafter, backend) is drafter
    assert caplog.text == ""


def test_a_model_serves_on_torch_where_a_budget_is_given(caplog):
    drafter = Model()
    with caplog.at_level(logging.INFO):
        assert chosen(drafter, look_ahead=0) is drafter
        assert chosen(drafter, look_ahead=20) is drafter
    assert caplog.text == ""


@pytest.mark.parametrize(
    "drafter, backend, settings, why",
    [
        (ForOne(), TORCH, {"look_ahead": 20}, "--strategy gad drafts for one hypothesis only"),
        (Model(), NATIVE, {"look_ahead": 20}, "natively a pass costs what its"),
        (Model(), TORCH, {}, "the drafts of a model do not pay"),
    ],
    ids=["one hypothesis", "native", "no budget"],
)
def test_others_give_way_and_the_log_has_the_reason(drafter, backend, settings, why, caplog):
    with caplog.at_level(logging.INFO):
        taken = chosen(drafter, backend, **settings)
    assert type(taken) is NoDrafter
    assert f"--beam 4: beam search without drafts: {why}" in caplog.text
    assert {record.name for record in caplog.records} == {beam_drafter.__module__}
