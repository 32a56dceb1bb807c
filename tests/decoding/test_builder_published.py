"""The models of docs/models.md, in full shape on the meta device, run natively."""

import pathlib
import re
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.bart import model as bart

import fairseq_specdec
from fairseq_specdec.checkpoints.verifier import Dictionaries
from fairseq_specdec.engine.native.stack import refusal
from fairseq_specdec.engine.session import Encoder
from fairseq_specdec.engine.support import ENCODERS, is_decoder

PAGE = pathlib.Path(fairseq_specdec.__path__[0]).parent / "docs" / "models.md"
ROWS = [
    [cell.strip(" `") for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\|.*\| `\w+` \|.*\| \d+ \|$", line)
]
SHARED = {"share_all_embeddings": True, "share_decoder_input_output_embed": True}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
SPEECH = {"input_feat_per_channel": 80, "input_channels": 1, "max_source_positions": 6000}


class Words(Dictionary):
    """As many words as asked for, without a table of them."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __len__(self):
        return self.size


def pair(cell):
    """The numbers of encoder and decoder."""
    numbers = [int(number) for number in cell.split("+")]
    return numbers[0], numbers[-1]


def flags_of(name, arch, layers, width, inner, heads, words):
    """What a command line would say beside the architecture."""
    both = "+" not in words
    flags = {}
    if arch.startswith("s2t_"):
        flags = {"share_decoder_input_output_embed": "LibriSpeech" in name, **SPEECH}
    elif arch.startswith("transformer"):
        flags = dict(SHARED) if both else {"share_decoder_input_output_embed": "wmt" in name}
    if name.startswith(("NLLB", "M2M")):
        flags.update(PRE_NORM)
    if name.startswith("mBART"):
        flags.update(PRE_NORM, layernorm_embedding=True)
    for side, number, wide in zip(("encoder", "decoder"), pair(layers), pair(inner)):
        flags[f"{side}_layers"], flags[f"{side}_ffn_embed_dim"] = number, wide
        flags[f"{side}_embed_dim"], flags[f"{side}_attention_heads"] = int(width), int(heads)
    return flags


def built(arch, flags, words):
    """The model of an architecture whose weights take no memory."""
    source, target = map(Words, pair(words))
    if "+" not in words:
        source = target
    args = Namespace(**{"max_source_positions": 1024, "max_target_positions": 1024, **flags})
    args.arch = args._name = arch
    ARCH_CONFIG_REGISTRY[arch](args)
    with torch.device("meta"):
        task = Dictionaries(None if arch.startswith("s2t") else source, target)
        task.cfg = Namespace()
        return ARCH_MODEL_REGISTRY[arch].build_model(args, task).eval()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_published_shape_is_decoded_natively(row, monkeypatch):
    monkeypatch.setattr(bart, "init_bert_params", lambda module: None)  # draws on the CPU
    name, arch, *shape, parameters = row
    layers, _, _, _, words = shape
    model = built(arch, flags_of(name, arch, *shape), words)
    assert is_decoder(model.decoder) and type(model.encoder) in ENCODERS
    source = Encoder(model.encoder)
    assert refusal(source) is None and refusal(model.decoder) is None
    assert (len(source.layers), len(model.decoder.layers)) == pair(layers)
    assert model.decoder.embed_tokens.num_embeddings == pair(words)[1]
    numbers = {id(each): each.numel() for each in model.parameters()}
    assert sum(numbers.values()) / 1e6 == pytest.approx(int(parameters), abs=0.5)


def test_the_table_was_read():
    assert len(ROWS) == 18
