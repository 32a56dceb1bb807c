"""A verifier's states of known sentences: those of its own forward, where they are asked for."""

import pytest
import torch
from toy_drafter import PAD, ToyTask, make_batch, make_verifier

from fairseq_specdec.models import verifier_states
from fairseq_specdec.models.verifier_states import VerifierReader, runs_packed

VARIANTS = {
    "post-norm": {},
    "pre-norm": {"decoder_normalize_before": True, "encoder_normalize_before": True},
    "learned, bart": {"decoder_learned_pos": True, "layernorm_embedding": True},
    "no positions, gelu": {"no_token_positional_embeddings": True, "activation_fn": "gelu"},
}


def reader(**settings):
    torch.manual_seed(3)
    model, _ = make_verifier(ToyTask(), **settings)
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    made = VerifierReader(ToyTask().source_dictionary, [1, 2])
    made.attach(model)
    return made


@pytest.mark.parametrize("name", VARIANTS)
def test_states_are_those_of_the_verifiers_own_forward(name, monkeypatch):
    made, batch = reader(**VARIANTS[name]), make_batch(rows=6)
    net_input, like = batch["net_input"], torch.zeros(1)
    assert runs_packed(made._verifier[0].decoder)
    _, states, final = made.read(**net_input, like=like)
    last = torch.tensor([0, 3, 8, 1, 20, 5])
    _, some, some_final = made.read(**net_input, like=like, last=last)
    monkeypatch.setattr(verifier_states, "runs_packed", lambda decoder: False)
    _, stock, stock_final = made.read(**net_input, like=like)
    previous = net_input["prev_output_tokens"]
    there = previous.ne(PAD)
    asked = there & (torch.arange(previous.size(1)) <= last[:, None])
    assert asked.sum() < there.sum() < there.numel()
    for states_read, expected, places in (
        (states, stock, there), (final, stock_final, there),
        (some, stock, asked), (some_final, stock_final, asked),
    ):  # fmt: skip
        torch.testing.assert_close(states_read[places], expected[places], atol=1e-5, rtol=1e-5)
    assert not some[~asked].any()  # nothing else was computed


def test_other_decoders_run_by_their_own_forward():
    made = reader()
    decoder = made._verifier[0].decoder
    decoder.layers[0].register_forward_hook(lambda *_: None)
    assert not runs_packed(decoder)
    projected = reader(decoder_output_dim=32)._verifier[0].decoder
    assert projected.project_out_dim is not None and not runs_packed(projected)
