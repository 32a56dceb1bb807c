"""The decoder's promises: cuts do not disturb one another, and the prefix can be cached."""

import pytest
import torch
from toy_drafter import EOS, PAD, make_batch, make_drafter

from fairseq_specdec.training.block_noising import block_targets

VARIANTS = {
    "sinusoidal": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned": {"decoder_learned_pos": True, "encoder_learned_pos": True},
    "bart": {"layernorm_embedding": True, "no_scale_embedding": True},
    "copy": {"source_copy": True},
    "no positions": {"no_token_positional_embeddings": True},
}


def features(model, batch, cuts, **extra):
    net_input = batch["net_input"]
    encoder_out = model.encoder(net_input["src_tokens"], src_lengths=net_input["src_lengths"])
    state = model.decoder.start_source(net_input["src_tokens"])
    return model.decoder(net_input["prev_output_tokens"], encoder_out, cuts, state, **extra)


def random_cuts(batch, num_cuts):
    lengths = batch["target"].ne(PAD).sum(1)
    return (torch.rand(lengths.numel(), num_cuts) * lengths[:, None]).long()


@pytest.mark.parametrize("name", VARIANTS)
def test_many_cuts_in_one_pass_equal_one_pass_each(name):
    torch.manual_seed(1)
    model = make_drafter(num_cuts=3, **VARIANTS[name]).eval()
    batch = make_batch()
    cuts = random_cuts(batch, 3)
    together = model.decoder.output_layer(features(model, batch, cuts))
    for index in range(3):
        alone = model.decoder.output_layer(features(model, batch, cuts[:, index : index + 1]))
        assert torch.allclose(together[:, index], alone[:, 0], atol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_block_depends_on_its_prefix_and_on_nothing_after_it(bidirectional):
    torch.manual_seed(2)
    model = make_drafter(bidirectional_prefix=bidirectional).eval()
    batch, cut = make_batch(rows=2), 3
    batch["net_input"]["prev_output_tokens"][:, 1:] = 10  # both rows long enough
    cuts = torch.full((2, 1), cut)
    before = features(model, batch, cuts)
    later = {**batch, "net_input": dict(batch["net_input"])}
    later["net_input"]["prev_output_tokens"] = batch["net_input"]["prev_output_tokens"].clone()
    later["net_input"]["prev_output_tokens"][:, cut + 1 :] = 20
    assert torch.allclose(features(model, later, cuts), before, atol=1e-6)
    later["net_input"]["prev_output_tokens"][:, cut] = 21
    assert not torch.allclose(features(model, later, cuts), before, atol=1e-3)


def test_a_revealed_target_takes_the_place_of_its_mask():
    torch.manual_seed(5)
    model = make_drafter().eval()
    batch, decoder = make_batch(), model.decoder
    cuts = torch.zeros(5, 1, dtype=torch.long)
    targets = block_targets(batch["target"], cuts, 4, PAD)
    none = torch.zeros_like(targets, dtype=torch.bool)
    plain = features(model, batch, cuts)
    assert torch.equal(features(model, batch, cuts, targets=targets, revealed=none), plain)
    one = none.clone()
    one[:, :, 1] = True
    shown = features(model, batch, cuts, targets=targets, revealed=one)
    other = targets.clone()
    other[:, :, 1] = 30
    assert not torch.allclose(shown[:, :, 0], plain[:, :, 0], atol=1e-3)
    changed = features(model, batch, cuts, targets=other, revealed=one)
    assert not torch.allclose(changed[:, :, 0], shown[:, :, 0], atol=1e-3)
    other = targets.clone()
    other[:, :, 2] = 30  # hidden: must not leak into the features
    assert torch.equal(features(model, batch, cuts, targets=other, revealed=one), shown)
    assert decoder.mask_embedding.requires_grad


def test_source_copy_follows_its_formula_and_ignores_padding():
    torch.manual_seed(7)
    model = make_drafter(source_copy=True).eval()
    copy, encoder = model.decoder.source_copy, model.encoder
    copy.query_proj.weight.data.normal_()
    source = torch.tensor([[PAD, PAD, 5, 6, EOS]])
    positions = torch.tensor([[3, 4]])
    table = model.decoder.position_table(positions)
    got = copy(table, model.decoder.start_source(source))
    for mask in range(2):
        query = copy.query_proj.weight @ table[0, mask]
        scores, values = [], []
        for index in (2, 3, 4):
            word = encoder.embed_tokens.weight[source[0, index]]
            key = word + encoder.embed_positions(source)[0, index]
            scores.append(query @ key)
            values.append(encoder.embed_scale * word)
        weights = torch.softmax(torch.stack(scores), 0)
        expected = (weights[:, None] * torch.stack(values)).sum(0)
        assert torch.allclose(got[0, mask], expected, atol=1e-4)


def test_a_checkpoint_of_another_fairseq_loads():
    """Up to fairseq 0.12.2 a sinusoidal table keeps a tensor in checkpoints; later ones do not."""
    source = make_drafter()
    left_out = ("_float_tensor", "version")  # the latter in older drafters of this project
    state = {key: v for key, v in source.state_dict().items() if not key.endswith(left_out)}
    kept = [f"{side}.embed_positions._float_tensor" for side in ("encoder", "decoder")]
    for each in (state, {**state, **dict.fromkeys(kept, torch.zeros(1))}):
        model = make_drafter()
        model.load_state_dict(dict(each))
        weights = dict(model.named_parameters())
        assert all(torch.equal(weights[name], value) for name, value in source.named_parameters())
