"""What is no checkpoint is refused with what it is."""

import argparse

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.checkpoints.structure import check_structure

WEIGHTS = {"decoder.embed_tokens.weight": torch.zeros(2, 2)}
ARGS = argparse.Namespace(arch="transformer")


def counts(name):
    return {"args": argparse.Namespace(arch="transformer", **{name: 0}), "model": WEIGHTS}


CASES = [
    (WEIGHTS, "holds weights without the settings of their model"),
    ({}, "holds no model"),
    ({"args": ARGS}, "holds no model"),
    ([1, 2], "holds a list, no checkpoint"),
    (None, "holds nothing (None), no checkpoint"),
    ({"args": ARGS, "model": None}, "its model is None, not weights by name"),
    ({"args": ARGS, "model": [1]}, "its model is a list, not weights by name"),
    ({"args": ARGS, "model": {}}, "its model has no weights"),
    ({"args": None, "model": WEIGHTS}, "has neither args nor cfg"),
    (counts("decoder_layers"), "its setting decoder_layers is 0, and"),
    (counts("decoder_attention_heads"), "its setting decoder_attention_heads is 0, and"),
    (counts("encoder_attention_heads"), "its setting encoder_attention_heads is 0, and"),
    ({"cfg": {"model": {"decoder_layers": 0}}, "model": WEIGHTS}, "its setting decoder_layers is"),
    ({"cfg": {"task": "x"}, "model": WEIGHTS}, "its task in cfg is a str, not settings by name"),
    ({"cfg": {"model": [1]}, "model": WEIGHTS}, "its model in cfg is a list, not settings"),
]


def test_a_head_on_a_verifier_needs_no_layers():
    state = counts("decoder_layers")
    head = dict(state, model={"decoder.mask_states.project.weight": torch.zeros(2, 2)})
    check_structure(head, "x.pt")
    with pytest.raises(RefusedCheckpointError, match="decoder_layers is 0"):
        check_structure(state, "x.pt")


@pytest.mark.parametrize("state, message", CASES, ids=[message for _, message in CASES])
def test_what_is_no_checkpoint(state, message, tmp_path):
    path = tmp_path / "x.pt"
    torch.save(state, str(path))
    with pytest.raises(RefusedCheckpointError) as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert str(caught.value).startswith(f"{path}: {message}")
    assert str(caught.value).endswith("; name a checkpoint that fairseq-train wrote")
