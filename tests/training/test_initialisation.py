import argparse

import pytest
import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from toy_drafter import ToyTask, make_batch, make_drafter, save_verifier

from fairseq_specdec.models.drafter_config import SpecDrafterConfig

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def encode(model, batch):
    source, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]
    return model.eval().encoder(source, src_lengths=lengths)["encoder_out"][0]


def started(folder, task=None, verifier=None, side="encoder", **settings):
    """(a verifier with these settings, a drafter that starts from its checkpoint)."""
    task, path = task or ToyTask(), str(folder / "v.pt")
    made = save_verifier(path, task, **(verifier or {}))
    given = {f"init_{side}_from": path, "share_all_embeddings": False, **settings}
    return made, make_drafter(task, **given)


@pytest.mark.parametrize(
    "layers, settings",
    [
        (2, {"share_all_embeddings": True}),
        (3, {"encoder_learned_pos": True, "layernorm_embedding": True}),
        (5, {}),
    ],
)
def test_a_grown_encoder_computes_the_verifiers_output(tmp_path, layers, settings):
    torch.manual_seed(0)
    settings = dict(PRE_NORM, **settings)
    verifier, drafter = started(tmp_path, None, settings, encoder_layers=layers, **settings)
    batch = make_batch()
    assert torch.allclose(encode(drafter, batch), encode(verifier, batch), atol=1e-5)


def test_added_layers_can_leave_the_identity(tmp_path):
    _, drafter = started(tmp_path, None, PRE_NORM, encoder_layers=3, **PRE_NORM)
    encode(drafter.train(), make_batch()).pow(2).sum().backward()
    added = drafter.encoder.layers[2]
    assert not added.fc2.weight.any() and added.fc2.weight.grad.abs().sum() > 0
    assert added.self_attn.out_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("apply_bert_init", [False, True])
def test_post_norm_encoders_of_equal_depth_are_copied_and_deeper_ones_refused(
    tmp_path, apply_bert_init
):
    verifier, drafter = started(tmp_path, apply_bert_init=apply_bert_init)
    batch = make_batch()
    assert torch.allclose(encode(drafter, batch), encode(verifier, batch), atol=1e-5)
    with pytest.raises(ValueError, match="post-norm.*--encoder-layers 2"):
        started(tmp_path, encoder_layers=4)


def test_learned_positions_start_as_the_verifiers_sinusoids(tmp_path, caplog):
    task = ToyTask()
    learned = {f"{side}_learned_pos": True for side in ("encoder", "decoder")}
    settings = dict(PRE_NORM, **learned, init_decoder_layers="1")
    settings["init_decoder_from"] = str(tmp_path / "v.pt")
    verifier, drafter = started(tmp_path, task, PRE_NORM, **settings)
    batch = make_batch()
    assert torch.allclose(encode(drafter, batch), encode(verifier, batch), atol=1e-5)
    where = torch.arange(6)
    ours, theirs = drafter.decoder.position_table(where), verifier.decoder.embed_positions.weights
    assert torch.equal(ours, theirs[where + task.target_dictionary.pad() + 1])
    assert "GELU" not in caplog.text
    started(tmp_path, task, PRE_NORM, activation_fn="gelu", **settings)
    assert "--init-encoder-from" in caplog.text and "it has ReLU, the drafter GELU" in caplog.text


def test_weights_are_drawn_as_berts(tmp_path):
    settings = dict(source_copy=True, chain_width=8, encoder_learned_pos=True)
    drafter = make_drafter(apply_bert_init=True, **settings)
    drawn = {
        name: weight.detach()
        for name, weight in drafter.named_parameters()
        if weight.dim() > 1 and "chain." not in name
    }
    assert "decoder.source_copy.query_proj.weight" in drawn and len(drawn) > 20
    for name, weight in drawn.items():
        assert 0.016 < weight.std() < 0.024, name
    assert 0.01 < drafter.decoder.mask_embedding.std() < 0.03
    assert not drafter.encoder.layers[0].fc1.bias.any()
    assert not drafter.decoder.chain.out.weight.any()


def test_decoder_layers_and_target_embeddings_are_copied(tmp_path):
    both = dict(PRE_NORM, decoder_learned_pos=True)
    verifier, drafter = started(
        tmp_path, ToyTask(40, target_words=30), both, "decoder", decoder_layers=2,
        init_decoder_layers="1,0", **both,
    )  # fmt: skip
    theirs = verifier.decoder.state_dict()
    for name, value in drafter.decoder.state_dict().items():
        if name == "mask_embedding":
            continue
        origin = name
        for ours, other in (("layers.0.", "layers.1."), ("layers.1.", "layers.0.")):
            if name.startswith(ours):
                origin = name.replace(ours, other)
        expected = theirs[origin]
        assert torch.equal(value[: len(expected)], expected), name


def test_marians_models_lend_their_layers(tmp_path):
    """Their activation is in no list of fairseq, and no drafter has a bias of the output."""
    parser = argparse.ArgumentParser()
    gen_parser_from_dataclass(parser, SpecDrafterConfig())
    given = vars(parser.parse_args(["--activation-fn", "swish"]))
    path = str(tmp_path / "v.pt")
    theirs = save_verifier(path, activation_fn="swish").decoder
    state = torch.load(path, weights_only=False)
    state["args"].arch = state["args"]._name = "marian_transformer"
    state["model"]["decoder.output_projection.bias"] = torch.ones(len(theirs.dictionary))
    torch.save(state, path)
    settings = {"activation_fn": given["activation_fn"], "share_all_embeddings": False}
    drafter = make_drafter(init_decoder_from=path, init_decoder_layers="1", **settings)
    ours = drafter.decoder
    assert torch.equal(ours.output_projection.weight, theirs.output_projection.weight)
    assert torch.equal(ours.layers[0].fc1.weight, theirs.layers[1].fc1.weight)


@pytest.mark.parametrize(
    "verifier, drafter, message",
    [
        ({}, {"encoder_embed_dim": 32}, "encoder_embed_dim is 64, the drafter's 32.*--encoder-e"),
        ({}, {"encoder_ffn_embed_dim": 64}, "pass --encoder-ffn-embed-dim 128"),
        ({}, {"encoder_attention_heads": 4}, "pass --encoder-attention-heads 2"),
        ({}, {"encoder_normalize_before": True}, "leave out --encoder-normalize-before"),
        ({"activation_fn": "gelu"}, {}, "activation_fn is gelu, the drafter's relu"),
        ({"encoder_learned_pos": True}, {}, "pass --encoder-learned-pos"),
        ({"layernorm_embedding": True}, {}, "pass --layernorm-embedding"),
        ({"no_scale_embedding": True}, {}, "pass --no-scale-embedding"),
        ({}, {"share_all_embeddings": True}, "leave out --share-all-embeddings"),
        ({}, {"side": "decoder", "decoder_ffn_embed_dim": 64}, "pass --decoder-ffn-embed-dim 128"),
        ({}, {"side": "decoder", "share_decoder_input_output_embed": True}, "--share-decoder-in"),
    ],
)
def test_a_setting_that_differs_is_named_with_both_values(tmp_path, verifier, drafter, message):
    side = drafter.get("side", "encoder")
    with pytest.raises(ValueError, match=f"--init-{side}-from.*{message}"):
        started(tmp_path, None, verifier, **drafter)


def test_files_that_are_no_verifier_of_this_data_are_refused(tmp_path):
    save_verifier(tmp_path / "v.pt", ToyTask(41))
    with pytest.raises(ValueError, match="dictionary of 45 symbols .the data's has 44.*dict"):
        make_drafter(init_encoder_from=str(tmp_path / "v.pt"))
    with pytest.raises(FileNotFoundError, match="--init-decoder-from: no file .*leave the flag"):
        make_drafter(init_decoder_from=str(tmp_path / "missing.pt"))
