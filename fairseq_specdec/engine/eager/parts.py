"""Which parts of a fairseq Transformer the engine runs. Any other part is refused by name.

The engine reads weights and computes without fairseq's modules. A part that it does not know would
be left out silently, so it checks that all is known: the class of every module, and every
child, parameter, buffer, hook and replaced method. ``settings`` does the same for the flags.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from fairseq.models import BaseFairseqModel
from fairseq.models.speech_to_text import S2TTransformerModel
from fairseq.models.transformer import TransformerModelBase
from torch import nn

from fairseq_specdec.errors import UsageError

from .settings import check_settings


class Kind(NamedTuple):
    """What modules of one kind may be and hold."""

    classes: frozenset[str]  # full names of the classes; a subclass is another class
    tensors: frozenset[str] = frozenset()  # names of parameters and buffers
    # the kinds of the child modules by name; under ``EVERY`` that of all children
    children: dict[str, Any] = {}


EVERY = "*"


def _kind(classes: str, tensors: str = "", children: dict[str, Kind] | None = None) -> Kind:
    return Kind(frozenset(classes.split()), frozenset(tensors.split()), children or {})


_LAYER = "fairseq.modules.transformer_layer.Transformer"
_OURS = "fairseq_specdec.engine.eager."
_LINEAR = _kind(
    f"torch.nn.modules.linear.Linear {_OURS}packed_module.PackedLinear "
    f"{_OURS}stored_module.StoredLinear",
    "weight bias",
)
_EMBEDDING = _kind(
    f"torch.nn.modules.sparse.Embedding {_OURS}packed_module.PackedEmbedding "
    f"{_OURS}stored_module.StoredEmbedding",
    "weight",
)
# A sinusoidal table is computed; up to 0.12.2 a tensor records its type.
_POSITIONS = _kind(
    "fairseq.modules.learned_positional_embedding.LearnedPositionalEmbedding "
    "fairseq.modules.sinusoidal_positional_embedding.SinusoidalPositionalEmbedding",
    "weight weights _float_tensor",
)
_NORM = _kind(
    "torch.nn.modules.normalization.LayerNorm fairseq.modules.layer_norm.FusedLayerNorm",
    "weight bias",
)
_DROPOUT = _kind("fairseq.modules.fairseq_dropout.FairseqDropout")
_ATTENTION = _kind(
    "fairseq.modules.multihead_attention.MultiheadAttention",
    children={
        **dict.fromkeys(("q_proj", "k_proj", "v_proj", "out_proj"), _LINEAR),
        "dropout_module": _DROPOUT,
    },
)
_LAYER_PARTS = {
    "self_attn": _ATTENTION,
    "self_attn_layer_norm": _NORM,
    "fc1": _LINEAR,
    "fc2": _LINEAR,
    "final_layer_norm": _NORM,
    "dropout_module": _DROPOUT,
    "activation_dropout_module": _DROPOUT,
}
_ENCODER_LAYER = _kind(f"{_LAYER}EncoderLayer {_LAYER}EncoderLayerBase", "", _LAYER_PARTS)
_DECODER_LAYER = _kind(
    f"{_LAYER}DecoderLayer {_LAYER}DecoderLayerBase",
    children={**_LAYER_PARTS, "encoder_attn_layer_norm": _NORM, "encoder_attn": _ATTENTION},
)


def _stack(layer: Kind) -> Kind:
    lists = "torch.nn.modules.container.ModuleList fairseq.modules.layer_drop.LayerDropModuleList"
    return Kind(frozenset(lists.split()), frozenset(), {EVERY: layer})


_EMBEDDING_PARTS = {
    "embed_tokens": _EMBEDDING,
    "embed_positions": _POSITIONS,
    "layernorm_embedding": _NORM,
    "quant_noise": _LINEAR,
    "dropout_module": _DROPOUT,
}
# What ``DecoderWeights`` runs, of any decoder.
_STACK_PARTS = {
    "layers": _stack(_DECODER_LAYER),
    "layer_norm": _NORM,
    "project_out_dim": _LINEAR,
    "output_projection": _LINEAR,
    "adaptive_softmax": _kind(""),
}
_ENCODER = _kind(
    "fairseq.models.transformer.transformer_encoder.TransformerEncoder "
    "fairseq.models.transformer.transformer_encoder.TransformerEncoderBase",
    "version",
    {**_EMBEDDING_PARTS, "layers": _stack(_ENCODER_LAYER), "layer_norm": _NORM},
)
_S2T = "fairseq.models.speech_to_text."
_CONVOLUTION = _kind("torch.nn.modules.conv.Conv1d", "weight bias")
_SUBSAMPLER = _kind(
    # in fairseq 0.12.2 the second
    f"{_S2T}modules.convolution.Conv1dSubsampler {_S2T}s2t_transformer.Conv1dSubsampler",
    children={
        "conv_layers": Kind(
            frozenset(["torch.nn.modules.container.ModuleList"]), children={EVERY: _CONVOLUTION}
        )
    },
)
_SPEECH_ENCODER = _kind(
    f"{_S2T}s2t_transformer.S2TTransformerEncoder",
    children={
        "subsample": _SUBSAMPLER,
        "embed_positions": _POSITIONS,
        "dropout_module": _DROPOUT,
        "transformer_layers": _stack(_ENCODER_LAYER),
        "layer_norm": _NORM,
        "ctc_proj": _LINEAR,  # of a loss
    },
)
_ENCODERS = {name: kind for kind in (_ENCODER, _SPEECH_ENCODER) for name in kind.classes}
_DECODER = _kind(
    "fairseq.models.transformer.transformer_decoder.TransformerDecoder "
    "fairseq.models.transformer.transformer_decoder.TransformerDecoderBase "
    f"{_S2T}s2t_transformer.TransformerDecoderScriptable",
    "version",
    {**_EMBEDDING_PARTS, "project_in_dim": _LINEAR, **_STACK_PARTS},
)
_HEADS = _kind(
    "fairseq_specdec.models.blockwise_decoder.BlockHeads",
    children={
        "hidden": _LINEAR,
        "output": _LINEAR,
        "dropout_module": _DROPOUT,
        "activation_dropout_module": _DROPOUT,
    },
)
_BLOCKWISE = Kind(
    frozenset(["fairseq_specdec.models.blockwise_decoder.BlockwiseDecoder"]),
    _DECODER.tensors,
    {**_DECODER.children, "block_heads": _HEADS},
)
_DECODERS = {name: kind for kind in (_DECODER, _BLOCKWISE) for name in kind.classes}

# Whose log-probabilities are the logits' softmax.
_STOCK_MODELS = (TransformerModelBase, BaseFairseqModel, S2TTransformerModel)

# The flags that make parts which are not run.
_FLAG_OF_CLASS = {
    "AdaptiveSoftmax": "--adaptive-softmax-cutoff",
    "BaseLayer": "--base-layers",
    "IntEmbedding": "--quant-noise-scalar",
    "IntLinear": "--quant-noise-scalar",
}
_FLAG_OF_PART = {
    "c_attn": "--scale-heads",
    "attn_ln": "--scale-attn",
    "ffn_layernorm": "--scale-fc",
    "w_resid": "--scale-resids",
}
# They do nothing in evaluation: noise on the weights, and a backward pass with less memory.
_IDLE_HOOK = ("fairseq.modules.quant_noise", "_forward_pre_hook")
_IDLE_METHOD = ("fairseq.modules.checkpoint_activations", "_checkpointed_forward")


def _class(module: Any) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _named(path: str, flag: str | None) -> str:
    return path if flag is None else f"{path} ({flag})"


def _is(function: Any, known: tuple[str, str]) -> bool:
    function = getattr(function, "func", function)  # of a functools.partial
    name = (getattr(function, "__module__", None), getattr(function, "__name__", None))
    return name == known


def _hooks(module: Any, path: str) -> Iterator[str]:
    for hook in [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]:
        if not _is(hook, _IDLE_HOOK):
            yield f"the hook {getattr(hook, '__qualname__', type(hook).__name__)} on {path}"


def _replaced(module: Any, path: str) -> Iterator[str]:
    """Methods replaced in this one object."""
    for name, value in vars(module).items():
        if callable(value) and callable(getattr(type(module), name, None)):
            if not _is(value, _IDLE_METHOD):
                yield f"{path}.{name}(), which was replaced"


def _attention(attention: Any, path: str) -> Iterator[str]:
    """Settings of an attention that change what it computes without adding a part."""
    if getattr(attention, "use_xformers", False):
        side = "encoder" if attention.encoder_decoder_attention else "decoder"
        yield _named(path, f"--{side}-xformers-att-config")
    if attention.add_zero_attn or attention.bias_k is not None:
        yield f"{path} with extra keys and values"
    if getattr(attention, "skip_embed_dim_check", False):
        yield f"{path} with heads pruned"


def _dropout(dropout: Any, path: str) -> Iterator[str]:
    if dropout.apply_during_inference and dropout.p > 0:
        yield _named(f"{path}, which is left on in decoding", "--retain-dropout")


def _decoder_layer(layer: Any, path: str) -> Iterator[str]:
    if layer.cross_self_attention:
        yield _named(path, "--cross-self-attention")


def _convolution(convolution: Any, path: str) -> Iterator[str]:
    if convolution.groups != 1 or convolution.dilation != (1,):
        yield f"{path} in groups or dilated"
    if convolution.padding_mode != "zeros":
        yield f"{path} with {convolution.padding_mode} padding"


_WITHOUT_PARTS = {
    id(_ATTENTION): _attention,
    id(_CONVOLUTION): _convolution,
    id(_DROPOUT): _dropout,
    id(_DECODER_LAYER): _decoder_layer,
}


def _within(module: Any, kind: Kind, path: str) -> Iterator[str]:
    """Methods, tensors and children of a module of known class that the engine does not run."""
    yield from _replaced(module, path)
    tensors = [*module._parameters.items(), *module._buffers.items()]
    for name, tensor in tensors:
        if tensor is not None and name not in kind.tensors:
            yield _named(f"{path}.{name}", _FLAG_OF_PART.get(name))
    for name, child in module._modules.items():
        known = kind.children.get(name, kind.children.get(EVERY))
        if child is None:
            continue
        if known is None:
            yield _named(f"{path}.{name}", _FLAG_OF_PART.get(name))
        else:
            yield from _parts_not_run(child, known, f"{path}.{name}")


def _parts_not_run(module: Any, kind: Kind, path: str) -> Iterator[str]:
    """Parts of a module, at any depth, that the engine does not run, in words."""
    if _class(module) not in kind.classes:
        name = type(module).__name__
        yield _named(f"{path}, a {name}", _FLAG_OF_CLASS.get(name))
        return
    if id(kind) in _WITHOUT_PARTS:
        yield from _WITHOUT_PARTS[id(kind)](module, path)
    yield from _within(module, kind, path)
    yield from _hooks(module, path)


def _refuse(parts: Iterator[str], name: str) -> None:
    for part in parts:
        raise UsageError(
            name, f"speculative decoding does not run {part}", "decode with --task translation"
        )


def is_decoder(module: Any) -> bool:
    """Whether a module is of a class that the engine runs as a verifier's decoder."""
    return _class(module) in _DECODERS


def check_decoder(decoder: nn.Module, name: str) -> None:
    """Refuse a decoder that holds a part which the engine does not run.

    Hooks on the decoder itself are ignored: fairseq's generator calls ``forward`` directly.

    Args:
        decoder: a fairseq ``TransformerDecoder`` or a ``BlockwiseDecoder``.
        name: what to call the model in the error, e.g. ``--path``.

    Raises:
        ValueError: names the part and the flag that makes it.
    """
    kind = _DECODERS.get(_class(decoder))
    if kind is None:
        raise UsageError(name, f"speculative decoding does not run a {type(decoder).__name__}")
    _refuse(_within(decoder, kind, "decoder"), name)


def check_model(model: Any, name: str) -> None:
    """Refuse a fairseq Transformer that would decode differently here and in fairseq. Raises
    ValueError: names the part or the setting."""
    for method in ("get_normalized_probs", "get_normalized_probs_scriptable"):
        stock = [getattr(kind, method) for kind in _STOCK_MODELS]
        if method in vars(model) or getattr(type(model), method) not in stock:
            _refuse(iter([f"{method}() of a {type(model).__name__}"]), name)
    check_decoder(model.decoder, name)
    check_settings(model.decoder.cfg, name)


def _check_widths(decoder: Any, name: str) -> None:
    """Refuse a decoder of which a product reads more or fewer numbers than come before it."""
    width = decoder.layers[-1].fc2.out_features if len(decoder.layers) else None
    for part in ("project_out_dim", "output_projection"):
        product = getattr(decoder, part)
        if product is None or width is None:
            continue
        if product.in_features != width:
            raise UsageError(
                name,
                f"decoder.{part} reads {product.in_features} numbers and gets {width} "
                "(--decoder-output-dim beside shared embeddings)",
                "fairseq cannot decode it either",
            )
        width = product.out_features


def check_stack(decoder: Any, name: str) -> None:
    """Refuse a decoder of any class whose layers or projections ``DecoderWeights`` does not run."""
    _check_widths(decoder, name)
    for part, kind in _STACK_PARTS.items():
        if part == "layers":
            for i, layer in enumerate(decoder.layers):
                _refuse(_parts_not_run(layer, _DECODER_LAYER, f"decoder.layers.{i}"), name)
        elif getattr(decoder, part, None) is not None:
            _refuse(_parts_not_run(getattr(decoder, part), kind, f"decoder.{part}"), name)


def runs_encoder(encoder: Any) -> bool:
    """Whether the engine runs every part of an encoder; other encoders run their own code."""
    kind = _ENCODERS.get(_class(encoder))
    return kind is not None and next(_within(encoder, kind, "encoder"), None) is None
