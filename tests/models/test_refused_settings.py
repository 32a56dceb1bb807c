"""Settings that no model of this project can have are refused by their flag."""

from functools import partial

import pytest
from toy_blockwise import blockwise_args
from toy_drafter import ToyTask, make_drafter, save_verifier
from toy_early_exit import build
from toy_translation import make_task

from fairseq_specdec.models import AttachedDrafter, BlockwiseTransformer

MADE = {
    "drafter": make_drafter,
    "attached": partial(make_drafter, arch="attached_drafter_tiny", model=AttachedDrafter),
    "blockwise": lambda **settings: BlockwiseTransformer.build_model(
        blockwise_args(**settings), make_task()
    ),
    "early exit": build,
}
REFUSED = [
    ("drafter", {"bidirectional_prefix": True, "num_cuts": 2}, "--bidirectional-prefix"),
    ("drafter", {"block_size": 0}, "--block-size 0"),
    ("drafter", {"num_cuts": -1}, "--num-cuts -1"),
    ("drafter", {"adaptive_softmax_cutoff": "10,20"}, "--adaptive-softmax-cutoff"),
    ("drafter", {"decoder_embed_dim": 32}, "--encoder-embed-dim is 64"),
    ("drafter", {"source_copy": True, "no_token_positional_embeddings": True}, "--source-copy"),
    ("drafter", {"init_decoder_layers": "0"}, "--init-decoder-from"),
    ("drafter", {"decoder_layers": 0}, "--decoder-layers 0: a drafter needs 1 or more"),
    ("drafter", {"verifier_embeddings": True}, "--verifier-embeddings"),
    ("drafter", {"task": ToyTask(40, target_words=41)}, "--share-all-embeddings.*--joined-dict"),
    ("attached", {"attach_to": None}, "--attach-to"),
    ("attached", {"attach_to": "nowhere.pt"}, "nowhere.pt"),
    *(("attached", {"read_layers": bad}, "--read-layers") for bad in ("1,3", "0,1", "1,1", "a")),
    ("attached", {"encoder_embed_dim": 32}, "--encoder-embed-dim"),
    ("attached", {"source_copy": True}, "--source-copy"),
    ("attached", {"bidirectional_prefix": True}, "--bidirectional-prefix"),
    ("attached", {"init_encoder_from": "v.pt"}, "--init-encoder-from"),
    ("attached", {"chain_width": -1}, "--chain-width"),
    ("attached", {"chain_width": 8, "chain_dropout": 1.5}, "--chain-dropout"),
    ("attached", {"verifier_embeddings": True, "no_scale_embedding": True}, "--no-scale-embedding"),
    ("attached", {"verifier_embeddings": True, "decoder_embed_path": "v"}, "--decoder-embed-path"),
    ("blockwise", {"block_size": 0}, "--block-size 0: must be 1 or more"),
    ("blockwise", {"block_size": 1}, "--block-size 1 with --first-head identity"),
    ("blockwise", {"block_hidden_dim": -1}, "--block-hidden-dim -1: must be"),
    ("blockwise", {"first_head": "other"}, "--first-head other: choose one of identity, learned"),
    ("blockwise", {"adaptive_softmax_cutoff": "5,9"}, "--adaptive-softmax-cutoff"),
    ("early exit", {"exit_layer": 0}, "--exit-layer 0"),
    ("early exit", {"exit_layer": 3}, "--exit-layer 3"),
    ("early exit", {"decoder_layers": 1}, "--decoder-layers 1"),
    ("early exit", {"decoder_layerdrop": 0.1}, "--decoder-layerdrop"),
    ("early exit", {"adaptive_softmax_cutoff": "10,20"}, "--adaptive-softmax-cutoff"),
]  # fmt: skip


@pytest.mark.parametrize("model, settings, message", REFUSED)
def test_impossible_settings_name_the_flag(model, settings, message, tmp_path):
    if model == "attached":
        save_verifier(tmp_path / "v.pt")
        settings = {"attach_to": str(tmp_path / "v.pt"), **settings}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        MADE[model](**settings)


def test_a_verifier_with_an_output_width_of_its_own_is_refused(tmp_path):
    save_verifier(tmp_path / "v.pt", decoder_output_dim=16)
    with pytest.raises(ValueError, match="--decoder-output-dim"):
        MADE["attached"](attach_to=str(tmp_path / "v.pt"))
