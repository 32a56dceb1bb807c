"""A fairseq Transformer in the terms of transformers' classes, whose layers came from fairseq.

Four classes of one family cover it: MarianMT (norms after each block), Pegasus (before it), Bart
and MBart (the same two with a norm after the embedding). Positions are a table in all of them, so
that fairseq's sinusoids and its learned positions both fit, each at its own place.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

import torch
from fairseq.models.transformer import TransformerModel, TransformerModelBase
from torch import Tensor

# By (norms before each block, norm after the embedding).
CLASSES = {
    (False, False): "MarianMTModel",
    (True, False): "PegasusForConditionalGeneration",
    (False, True): "BartForConditionalGeneration",
    (True, True): "MBartForConditionalGeneration",
}
# Rows of the position table that these classes never read, before the first position.
OFFSET = {"BartForConditionalGeneration": 2, "MBartForConditionalGeneration": 2}
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_fast": "gelu_new",
    "gelu_accurate": "gelu_new",
    "tanh": "tanh",
    "linear": "linear",
}
NORMS = ("layer_norm", "layernorm_embedding")


class Represented(NamedTuple):
    """A model of transformers, not yet built.

    Attributes:
        kind: name of its class.
        config: arguments of its configuration.
        weights: its state.
    """

    kind: str
    config: Dict[str, Any]
    weights: Dict[str, Tensor]


def _refuse(model: Any) -> None:
    """Raise for what the four classes do not compute."""
    if type(model) not in (TransformerModel, TransformerModelBase):
        raise ValueError(f"{type(model).__name__} is no plain Transformer of fairseq's")
    cfg, sides = model.cfg, (model.encoder, model.decoder)
    before = [bool(cfg.encoder.normalize_before), bool(cfg.decoder.normalize_before)]
    unlike = {
        "an adaptive softmax": getattr(model.decoder, "adaptive_softmax", None) is not None,
        "norms before the blocks on one side only": before[0] != before[1],
        "a layer after the embedding (--quant-noise-pq)": model.decoder.quant_noise is not None,
        "no final norm in the decoder": before[1] and model.decoder.layer_norm is None,
        "encoder and decoder of different widths": cfg.encoder.embed_dim != cfg.decoder.embed_dim,
        "a decoder whose input or output has another width than its layers": (
            model.decoder.project_in_dim is not None or model.decoder.project_out_dim is not None
        ),
        "layers without cross-attention, or with it joined to self-attention": bool(
            cfg.no_cross_attention or cfg.cross_self_attention
        ),
        f"--activation-fn {cfg.activation_fn}": str(cfg.activation_fn) not in ACTIVATIONS,
    }
    for what, holds in unlike.items():
        if holds:
            raise ValueError(f"{what}: no class of transformers has that")
    if CLASSES[before[0], _norm_after(model)] != "MarianMTModel":
        source, target = (side.embed_tokens.weight for side in sides)
        output = model.decoder.output_projection.weight
        if not (torch.equal(source, target) and torch.equal(target, output)):
            raise ValueError(
                "embeddings that source, target and output do not share: only MarianMTModel has "
                "that, and it puts its norms after the blocks and none behind the embedding"
            )


def _norm_after(model: Any) -> bool:
    return model.encoder.layernorm_embedding is not None


def _positions(side: Any, places: int, offset: int) -> Tensor:
    """What is added to the embeddings at each position, float32 of shape (offset + places, width);
    zeros where the side has no position."""
    weight = side.embed_tokens.weight
    table = torch.zeros(offset + places, weight.size(1))
    if side.embed_positions is not None:
        rows = min(int(side.max_positions()), places)
        # Any token that is no padding: fairseq counts those.
        tokens = torch.full((1, rows), side.padding_idx + 1, device=weight.device)
        table[offset : offset + rows] = side.embed_positions(tokens)[0].float().cpu()
    return table


def _side(name: str, side: Any, kind: str, places: int) -> Dict[str, Tensor]:
    """The state of the encoder or the decoder: its layers and norms, whose names are fairseq's, its
    embedding and its table of positions."""
    found = {}
    for key, value in side.state_dict().items():
        if key.startswith("layers.") or key.split(".")[0] in NORMS:
            found[f"model.{name}.{key}"] = value.float().cpu()
    # These classes multiply by the root of the width; fairseq says by what it multiplies.
    found[f"model.{name}.embed_tokens.weight"] = side.embed_tokens.weight.float().cpu()
    found[f"model.{name}.embed_positions.weight"] = _positions(side, places, OFFSET.get(kind, 0))
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def _special_tokens(pad: int, eos: int) -> Dict[str, Any]:
    """As fairseq uses them: the decoder starts from </s>, and nothing forces it to end."""
    found = {"pad_token_id": pad, "eos_token_id": eos, "decoder_start_token_id": eos}
    return {**found, "bos_token_id": None, "forced_eos_token_id": None}


def represent(model: Any, pad: int, eos: int) -> Represented:
    """Find the class, configuration and weights that compute the same as ``model``.

    Args:
        model: fairseq's ``TransformerModel``.
        pad, eos: token ids.

    Raises:
        ValueError: no class does, and why.
    """
    _refuse(model)
    cfg = model.cfg
    kind = CLASSES[bool(cfg.encoder.normalize_before), _norm_after(model)]
    source, target = (side.embed_tokens.weight for side in (model.encoder, model.decoder))
    output = model.decoder.output_projection.weight
    shared = _same(source, target)
    places = max(model.max_positions())
    config: Dict[str, Any] = dict(
        vocab_size=source.size(0),
        d_model=source.size(1),
        max_position_embeddings=places,
        activation_function=ACTIVATIONS[str(cfg.activation_fn)],
        scale_embedding=not cfg.no_scale_embedding,
        tie_word_embeddings=_same(target, output),
        **_special_tokens(pad, eos),
    )
    if kind == "MarianMTModel":
        config.update(decoder_vocab_size=target.size(0), share_encoder_decoder_embeddings=shared)
    weights: Dict[str, Tensor] = {}
    for name in ("encoder", "decoder"):
        side, settings = getattr(model, name), getattr(cfg, name)
        config[f"{name}_layers"] = len(side.layers)
        config[f"{name}_ffn_dim"] = settings.ffn_embed_dim
        config[f"{name}_attention_heads"] = settings.attention_heads
        weights.update(_side(name, side, kind, places))
    if shared:
        weights["model.shared.weight"] = weights["model.encoder.embed_tokens.weight"]
    weights["lm_head.weight"] = output.float().cpu()
    weights["final_logits_bias"] = torch.zeros(1, output.size(0))
    return Represented(kind, config, weights)


def check_same(state: Dict[str, Tensor], weights: Dict[str, Tensor]) -> Tuple[str, ...]:
    """Names of a built model's state that do not hold what they should."""
    names = [*state, *(name for name in weights if name not in state)]
    return tuple(
        name
        for name in names
        if name not in state
        or name not in weights
        or not torch.equal(state[name].float(), weights[name])
    )
