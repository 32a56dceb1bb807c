from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from toy_drafter import ToyTask, make_batch, make_drafter, save_verifier

from fairseq_specdec.models import SpecDrafter
from fairseq_specdec.training.initialisation import decoder_layers, growth_plan

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def encode(model, batch):
    source, lengths = batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"]
    return model.eval().encoder(source, src_lengths=lengths)["encoder_out"][0]


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"encoder_learned_pos": True, "layernorm_embedding": True},
        {"share_all_embeddings": True},
    ],
)
def test_a_grown_encoder_computes_the_verifiers_output(tmp_path, layers, settings):
    task = ToyTask()
    torch.manual_seed(0)
    settings = dict(PRE_NORM, **settings)
    verifier = save_verifier(tmp_path / "v.pt", task, **settings)
    drafter = make_drafter(
        task,
        init_encoder_from=str(tmp_path / "v.pt"),
        encoder_layers=layers,
        **dict({"share_all_embeddings": False}, **settings),
    )
    batch = make_batch()
    assert torch.allclose(encode(drafter, batch), encode(verifier, batch), atol=1e-5)


def test_added_layers_can_leave_the_identity(tmp_path):
    save_verifier(tmp_path / "v.pt", **PRE_NORM)
    drafter = make_drafter(
        init_encoder_from=str(tmp_path / "v.pt"),
        encoder_layers=3,
        share_all_embeddings=False,
        **PRE_NORM,
    )
    encode(drafter.train(), make_batch()).pow(2).sum().backward()
    added = drafter.encoder.layers[2]
    assert not added.fc2.weight.any() and added.fc2.weight.grad.abs().sum() > 0
    assert added.self_attn.out_proj.weight.grad.abs().sum() > 0


def test_post_norm_encoders_of_equal_depth_are_copied_and_deeper_ones_refused(tmp_path):
    task = ToyTask()
    verifier = save_verifier(tmp_path / "v.pt", task)
    settings = {"init_encoder_from": str(tmp_path / "v.pt"), "share_all_embeddings": False}
    drafter, batch = make_drafter(task, **settings), make_batch()
    assert torch.allclose(encode(drafter, batch), encode(verifier, batch), atol=1e-5)
    with pytest.raises(ValueError, match="post-norm.*--encoder-layers 2"):
        make_drafter(task, encoder_layers=4, **settings)


def test_decoder_layers_and_target_embeddings_are_copied(tmp_path):
    task = ToyTask(40, target_words=30)
    verifier = save_verifier(tmp_path / "v.pt", task, decoder_learned_pos=True, **PRE_NORM)
    path = str(tmp_path / "v.pt")
    drafter = make_drafter(
        task,
        share_all_embeddings=False,
        decoder_layers=2,
        decoder_learned_pos=True,
        init_decoder_from=path,
        init_decoder_layers="1,0",
        **PRE_NORM,
    )
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


def test_the_report_says_what_was_copied_and_what_was_not(tmp_path, caplog):
    save_verifier(tmp_path / "v.pt", **PRE_NORM)
    with caplog.at_level("INFO"):
        make_drafter(
            init_encoder_from=str(tmp_path / "v.pt"),
            encoder_layers=4,
            share_all_embeddings=False,
            **PRE_NORM,
        )
    report = [r.getMessage() for r in caplog.records if "left as initialised" in r.getMessage()]
    assert len(report) == 1
    copied, rest = report[0].split("; set to the identity: ")
    identity, fresh = rest.split("; left as initialised at random: ")
    assert "encoder.layers.0, encoder.layers.2" in copied and "encoder.embed_tokens" in copied
    assert identity == "encoder.layers.1, encoder.layers.3"
    assert "decoder.mask_embedding" in fresh and "encoder." not in fresh.replace("encoder_attn", "")


@pytest.mark.parametrize(
    "verifier, drafter, message",
    [
        ({}, {"encoder_embed_dim": 32}, "encoder_embed_dim is 64, the drafter's 32.*--encoder-e"),
        ({}, {"encoder_ffn_embed_dim": 64}, "pass --encoder-ffn-embed-dim 128"),
        ({}, {"encoder_attention_heads": 4}, "pass --encoder-attention-heads 2"),
        ({}, {"encoder_normalize_before": True}, "leave out --encoder-normalize-before"),
        ({}, {"activation_fn": "gelu"}, "activation_fn is relu, the drafter's gelu"),
        ({"encoder_learned_pos": True}, {}, "pass --encoder-learned-pos"),
        ({"layernorm_embedding": True}, {}, "pass --layernorm-embedding"),
        ({"no_scale_embedding": True}, {}, "pass --no-scale-embedding"),
        ({}, {"share_all_embeddings": True}, "leave out --share-all-embeddings"),
    ],
)
def test_a_setting_that_differs_is_named_with_both_values(tmp_path, verifier, drafter, message):
    save_verifier(tmp_path / "v.pt", **verifier)
    settings = dict({"share_all_embeddings": False}, **drafter)
    with pytest.raises(ValueError, match=f"--init-encoder-from.*{message}"):
        make_drafter(init_encoder_from=str(tmp_path / "v.pt"), **settings)


def test_the_decoder_is_checked_too(tmp_path):
    save_verifier(tmp_path / "v.pt")
    settings = {"init_decoder_from": str(tmp_path / "v.pt"), "share_all_embeddings": False}
    with pytest.raises(ValueError, match="--init-decoder-from.*pass --decoder-ffn-embed-dim 128"):
        make_drafter(decoder_ffn_embed_dim=64, **settings)
    with pytest.raises(ValueError, match="--share-decoder-input-output-embed"):
        make_drafter(share_decoder_input_output_embed=True, **settings)


def test_dictionaries_of_other_sizes_are_refused(tmp_path):
    save_verifier(tmp_path / "v.pt", ToyTask(41))
    with pytest.raises(ValueError, match="has 45 symbols, the drafter's 44.*dict.txt"):
        make_drafter(init_encoder_from=str(tmp_path / "v.pt"))


def test_files_that_are_no_verifier_are_refused(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="--init-decoder-from: no file .*leave the flag out"
    ):
        make_drafter(init_decoder_from=str(tmp_path / "missing.pt"))
    (tmp_path / "text.pt").write_text("not a checkpoint")
    with pytest.raises(ValueError, match="--init-encoder-from.*text.pt: cannot be read"):
        make_drafter(init_encoder_from=str(tmp_path / "text.pt"))
    save_verifier(tmp_path / "v.pt")
    whole = (tmp_path / "v.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cut.pt: cannot be read"):
        make_drafter(init_encoder_from=str(tmp_path / "cut.pt"))


def test_the_settings_to_be_saved_no_longer_name_the_verifier(tmp_path):
    task = ToyTask()
    save_verifier(tmp_path / "v.pt", task)
    path = str(tmp_path / "v.pt")
    args = Namespace(share_all_embeddings=False, init_encoder_from=path, init_decoder_from=path)
    args.init_decoder_layers = "1"
    ARCH_CONFIG_REGISTRY["spec_drafter_tiny"](args)
    SpecDrafter.build_model(args, task)
    assert args.init_encoder_from is args.init_decoder_from is args.init_decoder_layers is None
    (tmp_path / "v.pt").unlink()
    SpecDrafter.build_model(args, task)


def test_layer_plans():
    assert growth_plan(2, 4) == [(0, True), (0, False), (1, True), (1, False)]
    assert [origin for origin, is_copy in growth_plan(6, 12) if is_copy] == list(range(6))
    for there in range(1, 7):
        for here in range(there, 13):
            plan = growth_plan(there, here)
            assert len(plan) == here
            assert [origin for origin, is_copy in plan if is_copy] == list(range(there))
    assert growth_plan(6, 3) == [(0, True), (2, True), (5, True)]


def test_decoder_layers_are_chosen_and_checked():
    assert decoder_layers(None, 6, 2) == [0, 5] and decoder_layers(None, 6, 1) == [5]
    assert decoder_layers("[3,3]", 6, 2) == [3, 3]
    for asked, message in (("0", "1 layers"), ("0,6", "0 to 5"), ("0,x", "numbers with commas")):
        with pytest.raises(ValueError, match=f"--init-decoder-layers.*{message}"):
            decoder_layers(asked, 6, 2)
    with pytest.raises(ValueError, match="--decoder-layers 1"):
        decoder_layers(None, 1, 2)
