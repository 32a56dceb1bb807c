"""Packed layers compute what fairseq's own layers do: the same losses and the same gradients."""

import pytest
import torch
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from toy_drafter import PAD, make_batch, make_drafter, save_verifier

from fairseq_specdec.models import AttachedDrafter, block_decoder
from fairseq_specdec.models.packed_layers import BlockPlan, can_pack
from fairseq_specdec.training.block_noising import block_targets

VARIANTS = {
    "one cut": {},
    "cuts": {"num_cuts": 3},
    "papers": {"bidirectional_prefix": True},
    "copy": {"num_cuts": 2, "source_copy": True},
    "chain": {"num_cuts": 2, "chain_width": 8},
    "pre-norm": {"num_cuts": 2, "decoder_normalize_before": True},
    "learned, bart": {"decoder_learned_pos": True, "layernorm_embedding": True},
    "gelu, one layer": {"decoder_layers": 1, "activation_fn": "gelu"},
    "attached": {"num_cuts": 2, "attach_to": "a verifier's file"},
}


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    torch.manual_seed(11)
    path = tmp_path_factory.mktemp("verifier") / "v.pt"
    save_verifier(path, decoder_output_dim=64)
    return str(path)


def build(verifier, settings):
    torch.manual_seed(12)
    settings = dict({"decoder_layers": 2}, **settings)
    if "attach_to" in settings:
        settings.update(arch="attached_drafter_tiny", model=AttachedDrafter, attach_to=verifier)
    model = make_drafter(**settings).train()
    for parameter in model.parameters():  # norms and biases too
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    return model


def losses_and_gradients(model, ratio):
    batch = make_batch(rows=6)
    lengths = batch["target"].ne(PAD).sum(1)
    torch.manual_seed(13)
    cuts = (torch.rand(6, model.decoder.num_cuts) * lengths[:, None]).long()
    targets = block_targets(batch["target"], cuts, model.decoder.block_size, PAD)
    output = model(cuts=cuts, targets=targets, glancing_ratio=ratio, **batch["net_input"])
    gold = targets[output["learnt"]]
    loss = torch.nn.functional.cross_entropy(output["logits"], gold, reduction="none")
    model.zero_grad()
    loss.sum().backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("ratio", [0.0, 0.5])
@pytest.mark.parametrize("name", VARIANTS)
def test_losses_and_gradients_equal_those_of_stock_layers(name, ratio, verifier, monkeypatch):
    model = build(verifier, VARIANTS[name])
    assert all(map(can_pack, model.decoder.layers))
    loss, gradients = losses_and_gradients(model, ratio)
    forward = model.decoder.forward  # the reference computes whole blocks
    monkeypatch.setattr(model.decoder, "forward", lambda *a, wanted=None: forward(*a[:8]))
    monkeypatch.setattr(block_decoder, "can_pack", lambda layer: False)
    expected, stock = losses_and_gradients(model, ratio)
    assert torch.allclose(loss, expected, atol=1e-5)
    assert loss.numel() >= 10 and set(gradients) == set(stock)
    for parameter, gradient in stock.items():
        assert (gradient is None) == (gradients[parameter] is None), parameter
        if gradient is not None:
            difference = (gradient - gradients[parameter]).abs().max()
            assert difference <= 1e-5 * (1 + gradient.abs().max()), parameter


def test_attention_dropout_draws_on_the_weights(monkeypatch):
    """Dropout takes other draws than in stock layers: its mean over many passes is theirs."""
    settings = {"num_cuts": 2, "attention_dropout": 0.5}
    model, plain = build("", settings), build("", dict(settings, attention_dropout=0.0))
    first, second = (losses_and_gradients(model, 0.0)[0] for _ in range(2))
    assert torch.equal(first, second)  # the same seed
    assert not torch.allclose(first, losses_and_gradients(plain, 0.0)[0], atol=1e-3)
    assert torch.allclose(
        losses_and_gradients(model.eval(), 0.0)[0], losses_and_gradients(plain, 0.0)[0], atol=1e-5
    )


def test_only_states_that_a_loss_needs_are_computed():
    cuts = torch.tensor([[0, 2], [1, 1]])
    plan = BlockPlan(cuts, width=9, block_size=4, bidirectional=False)
    assert plan.live.tolist() == [0, 1, 2, 9, 10]
    rows, model = [], build("", {"num_cuts": 2})
    for layer in model.decoder.layers:
        layer.fc1.register_forward_hook(lambda m, i, o: rows.append(o.size(0)))
    losses_and_gradients(model, 0.0)
    batch = make_batch(rows=6)
    torch.manual_seed(13)
    lengths = batch["target"].ne(PAD).sum(1)
    cuts = (torch.rand(6, 2) * lengths[:, None]).long()
    seen = int((cuts.max(1).values + 1).sum())
    learnt = int(block_targets(batch["target"], cuts, 4, PAD).ne(PAD).sum())
    assert rows == [seen + 6 * 2 * 4, learnt]


class Other(TransformerDecoderLayerBase):
    """A layer of another class."""


def test_other_layers_run_by_their_own_forward():
    checkpointed = make_drafter(checkpoint_activations=True).decoder.layers[0]
    hooked = make_drafter().decoder.layers[0]
    hooked.register_forward_hook(lambda *_: None)
    other = make_drafter().decoder.layers[0]
    other.__class__ = Other
    scaled = make_drafter().decoder.layers[0]
    scaled.w_resid = torch.nn.Parameter(torch.ones(64))
    assert not any(map(can_pack, (checkpointed, hooked, other, scaled)))


def test_all_layers_may_be_dropped():
    model = build("", {"decoder_layerdrop": 0.999999})
    loss, gradients = losses_and_gradients(model, 0.0)
    assert torch.isfinite(loss).all() and gradients["decoder.layers.0.fc1.weight"] is None
