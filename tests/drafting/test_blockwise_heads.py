"""Blockwise parallel decoding against a slow, plain, uncached version of Stern et al. 2018."""

import math

import pytest
import torch
from toy_blockwise import toy_blockwise
from toy_strategies import check, flags, stock
from toy_translation import EOS, PAD, make_sample, make_task, sentences

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator

SENTENCES = sentences(8, seed=7)
FLAGS = {"max_len_a": 0, "max_len_b": 40}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("blockwise")


def decode(model, **settings):
    """Whole blocks, as the slow version drafts them."""
    words = make_task().tgt_dict
    settings = decoding_settings(strategy="blockwise", draft_budget=0, **settings)
    generator = build_generator([model], words, words, flags(**FLAGS), settings)
    return [h[0] for h in generator.generate([model], make_sample(SENTENCES))], generator.stats


def slow_blockwise(model, source, size, accepts, minimum=1):
    """Section 3, predict and verify apart, with stock forward passes and nothing cached.

    Returns:
        (tokens, sizes of the accepted blocks).
    """
    net_input = make_sample([source])["net_input"]
    limit = FLAGS["max_len_b"]
    with torch.no_grad():
        encoder_out = model.encoder(net_input["src_tokens"], net_input["src_lengths"])

        def scores(tokens, head):
            """Log-probabilities of what head ``head`` predicts at every place."""
            previous = torch.tensor([[EOS] + tokens])
            features, _ = model.decoder(previous, encoder_out, features_only=True)
            log_probs = model.decoder.output_layer(features, head)[0].log_softmax(-1)
            log_probs[:, PAD] = -math.inf
            return log_probs

        tokens, sizes = [], []
        while not tokens or tokens[-1] != EOS:
            start = len(tokens)
            # Predict.
            block = [int(scores(tokens, head)[-1].argmax()) for head in range(1, size + 1)]
            # Verify: the first one stands by definition.
            verified = scores(tokens + block, 1)[start:]
            accepted = 1
            while accepted < size and accepts(block[accepted], verified[accepted]):
                accepted += 1
            accepted = max(accepted, min(minimum, size))
            block = block[:accepted]
            if EOS in block:
                block = block[: block.index(EOS) + 1]
            tokens += block
            sizes.append(len(block))
            if len(tokens) > limit:
                tokens = tokens[:limit] + [EOS]
    return tokens, sizes


def exactly(token, scores):
    return token == int(scores.argmax())


def among_3(token, scores):
    return int((scores > scores[token]).sum()) < 3


FROZEN = {"freeze_base": True}


@pytest.mark.parametrize(
    "shape, settings, accepts, minimum",
    [
        (FROZEN, {}, exactly, 1),
        ({"shape": "narrow_output", "first_head": "learned"}, {}, exactly, 1),
        (FROZEN, {"accept_top_k": 3}, among_3, 1),
        (FROZEN, {"min_block_size": 4}, exactly, 4),
    ],
)
def test_equals_the_slow_version(folder, shape, settings, accepts, minimum):
    """The other rules are in test_parity.py."""
    model = toy_blockwise(folder, block_size=4, **shape)
    ours, stats = decode(model, **settings)
    assert stats.mean_accepted_tokens > 1.2
    for hypo, source in zip(ours, SENTENCES):
        tokens, sizes = slow_blockwise(model, source, 4, accepts, minimum)
        assert hypo["tokens"].tolist() == tokens
        # Merging predict and verify leaves one invocation a block, and the first prediction; a
        # block's own token came with the verification before it, so the last may be spared.
        assert settings or hypo["steps"] in (len(sizes), len(sizes) + 1)


def test_a_smaller_block_uses_the_first_heads(folder):
    model = toy_blockwise(folder, block_size=4, freeze_base=True)
    for size in (1, 2):
        ours, stats = decode(model, block_size=size)
        check(ours, stock([model], make_sample(SENTENCES), flags(**FLAGS)))
        assert stats.drafted <= (size - 1) * stats.iterations
    with pytest.raises(ValueError, match="--block-size 5: the model of --path has 4 heads"):
        decode(model, block_size=5)
    with pytest.raises(ValueError, match="--min-block-size 5: at most the model's block size"):
        decode(model, min_block_size=5)
