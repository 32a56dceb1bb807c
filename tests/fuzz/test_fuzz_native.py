"""Random small Transformers: natively as stock decodes them, or refused in one line."""

import argparse

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from toy_strategies import decode, flags, make_generator, stock
from toy_translation import make_sample, make_task, sentences

from fairseq_specdec.engine.native.library import load


def settings(random):
    """The settings of a model; many of them do not fit one another."""
    found = {"dropout": 0.0, "max_source_positions": 64, "max_target_positions": 64}
    widths = [random.choice((8, 12, 16, 24, 40, 64)) for _ in range(2)]
    if random.random() < 0.6:
        widths[1] = widths[0]
    for side, width in zip(("encoder", "decoder"), widths):
        found.update({
            f"{side}_embed_dim": width,
            f"{side}_ffn_embed_dim": random.choice((1, 7, 16, 33, 64)),
            f"{side}_attention_heads": random.choice((1, 2, 4)),
            f"{side}_layers": random.randint(1, 3),
            f"{side}_normalize_before": random.random() < 0.5,
            f"{side}_learned_pos": random.random() < 0.3,
        })  # fmt: skip
    for name in (
        "share_all_embeddings", "share_decoder_input_output_embed", "layernorm_embedding",
        "no_scale_embedding", "no_token_positional_embeddings", "tie_adaptive_weights",
        "no_decoder_final_norm", "cross_self_attention", "no_cross_attention",
    ):  # fmt: skip
        found[name] = random.random() < 0.25
    if random.random() < 0.3:
        found["decoder_output_dim"] = random.choice((4, 16, 24, widths[1]))
    found["activation_fn"] = random.choice(
        ("relu", "gelu", "gelu_accurate", "tanh", "swish", "relu_squared", "linear")
    )
    return found


@pytest.mark.skipif(load() is None, reason="no native library here")
def test_models(fuzz):
    sample = make_sample(sentences(4, seed=11, longest=6))
    for seed in fuzz.seeds():
        random = fuzz.random(seed)
        given = settings(random)
        torch.manual_seed(seed)
        args = argparse.Namespace(**given)
        base_architecture(args)
        try:
            model = TransformerModel.build_model(args, make_task()).eval()
        except (ValueError, AssertionError):
            fuzz.counts["not built by fairseq"] += 1
            continue
        for parameter in model.parameters():
            parameter.data.mul_(2)  # outputs that differ
        beam, chosen = random.choice((1, 1, 3)), random.choice(("greedy", "iad"))
        options = flags(max_len_b=6)
        options.beam = beam
        try:
            expected = stock([model], sample, options)
        except Exception:  # whatever stock dies of
            expected = None
        try:
            generator = make_generator(chosen, options, [model], backend="auto")
            found = decode(generator, sample)
        except ValueError as error:
            assert expected is None or "does not" in str(error), (seed, given, error)
            fuzz.counts["refused"] += 1
            continue
        assert expected is not None, (seed, given)
        for mine, theirs in zip(found, expected):
            assert torch.isfinite(mine["positional_scores"]).all(), (seed, given)
            gap = abs(float(mine["score"]) - float(theirs["score"]))
            assert gap < 1e-3 * max(1.0, abs(float(theirs["score"]))), (seed, given, gap)
        fuzz.counts["decoded"] += 1
