"""A speech encoder on both backends against fairseq's own code."""

import copy
from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.speech_to_text import S2TTransformerModel, s2t_transformer
from toy_translation import dictionary

from fairseq_specdec.checkpoints.verifier import Dictionaries
from fairseq_specdec.engine.backend import Backend, NativeBackend
from fairseq_specdec.engine.native.decoder import NativeEncoder
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.engine.support import runs_encoder
from fairseq_specdec.engine.torch_decoder import EncoderWeights

BINS = 10
SHAPE = {
    "conv_channels": 24, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 48,
    "encoder_attention_heads": 4, "encoder_layers": 2, "decoder_layers": 1,
    "decoder_attention_heads": 4, "input_feat_per_channel": BINS, "input_channels": 1,
    "max_source_positions": 600, "max_target_positions": 64,
}  # fmt: skip


def encoder_of(**flags):
    """Of random weights."""
    args = Namespace(**{**SHAPE, **flags})
    ARCH_CONFIG_REGISTRY["s2t_transformer_s"](args)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = S2TTransformerModel.build_model(args, Dictionaries(None, dictionary()))
    return model.eval().requires_grad_(False).encoder


def frames_of(*lengths):
    """fairseq's net_input of noise; zeros after each row's end."""
    frames = torch.randn(
        len(lengths), max(lengths), BINS, generator=torch.Generator().manual_seed(5)
    )
    rows = torch.tensor(lengths)
    frames[torch.arange(max(lengths)) >= rows[:, None]] = 0
    return {"src_tokens": frames, "src_lengths": rows}


def assert_equals_stock(ours, stock, tolerance):
    """Encoder outputs are equal where there is no padding, and the padding is."""
    masks = stock["encoder_padding_mask"]
    assert len(ours["encoder_padding_mask"]) == len(masks)
    x, expected = ours["encoder_out"][0], stock["encoder_out"][0]
    assert x.shape == expected.shape
    if masks:
        assert torch.equal(ours["encoder_padding_mask"][0], masks[0])
        kept = ~masks[0].t()
        x, expected = x[kept], expected[kept]
    torch.testing.assert_close(x, expected, atol=tolerance, rtol=0)


def on(backend):
    return NativeBackend(load()) if backend == "native" else Backend()


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("lengths", [(41,), (1,), (90, 57, 8), (64, 63, 62)], ids=str)
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"conv_kernel_sizes": "3,5,7", "activation_fn": "gelu"},
        {"conv_kernel_sizes": "5", "encoder_normalize_before": False, "no_scale_embedding": True},
    ],
    ids=["5,5", "3,5,7", "5"],
)
def test_equals_stock(flags, lengths, backend):
    encoder = encoder_of(**flags)
    net_input = frames_of(*lengths)
    stock = copy.deepcopy(encoder)(**net_input)
    ours = on(backend).encoder(encoder)
    assert isinstance(ours, NativeEncoder if backend == "native" else EncoderWeights)
    assert_equals_stock(ours(net_input), stock, 2e-5)
    # What an ensemble's first model found is not asked for: another may subsample to other lengths.
    assert_equals_stock(ours(net_input, padded=len(lengths) == 1), stock, 2e-5)


@pytest.mark.skipif(
    not hasattr(s2t_transformer, "Conv2dSubsampler"), reason="fairseq 0.12.2 has none"
)
def test_two_dimensional_convolutions_run_their_own_code():
    encoder = encoder_of(conv_version="convtransformer", conv_out_channels=4)
    net_input = frames_of(41, 30)
    ours = NativeBackend(load()).encoder(encoder)
    assert not runs_encoder(encoder)
    assert_equals_stock(ours(net_input), encoder(**net_input), 1e-6)
