"""For every setting of fairseq's Transformer a small model that uses it, and what it computes.

The models are not trained: their parameters are drawn at random, norms and biases too, so that
every one of them changes the output. (Exactness of whole outputs is tested on trained models.)
"""

from argparse import Namespace

import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.quantization_utils import quantize_model_scalar
from fairseq.sequence_generator import EnsembleModel
from fairseq.utils import get_available_activation_fns
from toy_hypotheses import chain_layout
from toy_translation import make_task

from fairseq_specdec.engine.backend import TORCH
from fairseq_specdec.engine.transformer import Verifier

PAD, EOS = 1, 2
SOURCES = torch.tensor([[PAD, PAD, 7, 9, EOS], [5, 8, 4, 6, EOS]])
LENGTHS = torch.tensor([3, 5])
TARGETS = torch.tensor([[EOS, 4, 9, 5, 8, 6], [EOS, 7, 6, 6, 4, 9]])

PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
ADAPTIVE = {"adaptive_softmax_cutoff": "6,8"}

# Settings of one flag, and settings of both sides: a value that a model uses.
ONE_FLAG = {
    "activation_fn": "gelu", "dropout": 0.5, "attention_dropout": 0.5, "activation_dropout": 0.5,
    "relu_dropout": 0.5, "share_decoder_input_output_embed": True, "share_all_embeddings": True,
    "merge_src_tgt_embed": True, "no_token_positional_embeddings": True,
    "tie_adaptive_weights": True, "layernorm_embedding": True, "no_scale_embedding": True,
    "checkpoint_activations": True,
    "offload_activations": True, "no_cross_attention": True, "cross_self_attention": True,
    "min_params_to_wrap": 1, "char_inputs": True, "export": True,
    "scale_attn": True, "scale_fc": True, "scale_heads": True, "scale_resids": True,
    "adaptive_softmax_cutoff": "6,8",
}  # fmt: skip
BOTH_SIDES = {
    "embed_path": "table.txt", "embed_dim": 24, "ffn_embed_dim": 40, "layers": 3,
    "attention_heads": 4, "normalize_before": True, "learned_pos": True, "layerdrop": 0.5,
    "layers_to_keep": "0,2",
}  # fmt: skip
# Setting to the flags of a model that uses it, by their flat names. What can only be used with a
# setting that is refused stands beside it.
EXAMPLES = {
    **{name: {name: value} for name, value in ONE_FLAG.items()},
    **{
        f"{side}.{name}": {f"{side}_{name}": value}
        for name, value in BOTH_SIDES.items()
        for side in ("encoder", "decoder")
    },
    "adaptive_input": {"adaptive_input": True, "quant_noise_pq": 0.1},
    "decoder.input_dim": {"decoder_input_dim": 8},
    "decoder.output_dim": {"decoder_output_dim": 8},
    "max_source_positions": {"max_source_positions": 9, "encoder_learned_pos": True},
    "max_target_positions": {"max_target_positions": 9, "decoder_learned_pos": True},
    "adaptive_softmax_dropout": dict(ADAPTIVE, adaptive_softmax_dropout=0.5),
    "adaptive_softmax_factor": dict(ADAPTIVE, adaptive_softmax_factor=2),
    "tie_adaptive_proj": dict(ADAPTIVE, tie_adaptive_proj=True),
    "quant_noise.pq": {"quant_noise_pq": 0.1},
    "quant_noise.pq_block_size": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4},
    "quant_noise.scalar": {"quant_noise_scalar": 0.1},
    "no_decoder_final_norm": dict(PRE_NORM, no_decoder_final_norm=True),
}
# Models that use several.
TOGETHER = {
    "post norm": {},
    "pre norm": PRE_NORM,
    "one table": dict(PRE_NORM, share_all_embeddings=True, layernorm_embedding=True),
    "no attention to the source, no positions": {
        "no_cross_attention": True,
        "no_token_positional_embeddings": True,
    },
    "quant noise": dict(PRE_NORM, quant_noise_pq=0.1, layernorm_embedding=True),
    **{name: {"activation_fn": name} for name in get_available_activation_fns()},
}


def small_settings(**changes):
    """Flags of a Transformer of 2 + 2 layers, 16 wide."""
    shape = {"max_source_positions": 12, "max_target_positions": 12}
    for side in ("encoder", "decoder"):
        shape.update({f"{side}_embed_dim": 16, f"{side}_ffn_embed_dim": 32})
        shape.update({f"{side}_attention_heads": 2, f"{side}_layers": 2})
    return Namespace(**dict(shape, **changes))


def randomise(model, seed=1):
    """Draw every parameter anew."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            scale = 0.3 if parameter.dim() > 1 else 0.2
            parameter.copy_(noise * scale + (1.0 if "norm.weight" in name else 0.0))
    return model.eval()


def build(changes, folder):
    """The model of an entry of ``EXAMPLES``, as a task builds it.

    Args:
        changes: the entry.
        folder: an empty one.
    """
    args = small_settings(**changes)
    for name in ("encoder_embed_path", "decoder_embed_path"):
        if name in changes:
            path = folder / changes[name]
            path.write_text("1 16\nw0 " + " ".join(["0.5"] * 16) + "\n")
            setattr(args, name, str(path))
    base_architecture(args)
    model = TransformerModel.build_model(args, make_task(6, 6))
    return randomise(quantize_model_scalar(model, args))


def batch():
    return {"src_tokens": SOURCES, "src_lengths": LENGTHS}


@torch.no_grad()
def by_stock(model):
    """[B, W, V] log-probabilities, token by token, as fairseq's generator asks for them."""
    ensemble = EnsembleModel([model])
    encoder_outs = ensemble.forward_encoder(batch())
    states = torch.jit.annotate(list, [{}])
    steps = []
    for width in range(1, TARGETS.size(1) + 1):
        log_probs, _ = ensemble.forward_decoder(TARGETS[:, :width], encoder_outs, states)
        steps.append(log_probs)
    return torch.stack(steps, 1)


@torch.no_grad()
def by_engine(model, backend=TORCH):
    """The same in one pass of the engine."""
    verifier = Verifier([model], backend=backend)
    rows, width = TARGETS.shape
    session = verifier.open(verifier.encode(batch()), width, width)
    layout = chain_layout([0] * rows, width)
    return session.score(TARGETS, layout).log_probs
