"""Refuse, by proof, a model that would decode differently here and in fairseq.

The engine reads weights and computes without fairseq's modules. A part that it does not know would
be left out silently. So a decoder is refused that holds code neither torch's nor fairseq's, a layer
unlike the first, a parameter which the engine does not read, or whose log-probabilities of two
tokens are not fairseq's, with one layer: because of a setting, or of a release of fairseq that
computes something else. An encoder with any of these runs its own code.
"""

import contextlib
import copy
import functools
from collections.abc import Iterator
from typing import Any

import torch
from fairseq.models.speech_to_text.s2t_transformer import (
    S2TTransformerEncoder,
    TransformerDecoderScriptable,
)
from fairseq.models.transformer import TransformerDecoder, TransformerEncoder
from fairseq.models.transformer.transformer_decoder import TransformerDecoderBase
from fairseq.models.transformer.transformer_encoder import TransformerEncoderBase
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairseq_specdec.errors import UsageError

from .eager.encoder import Encoder, EncoderWeights
from .eager.linear import Linear
from .memory import numbers, packed_source
from .session import Embedding
from .state import Layout
from .torch_decoder import TorchDecoder

STOCK_DECODERS = (TransformerDecoder, TransformerDecoderBase, TransformerDecoderScriptable)
_BLOCKWISE = "fairseq_specdec.models.blockwise_transformer.BlockwiseDecoder"
ENCODERS = (TransformerEncoder, TransformerEncoderBase, S2TTransformerEncoder)

# Parameters that are read elsewhere: by the drafter of a blockwise model, and by a loss.
_ELSEWHERE = ("block_heads.", "ctc_proj.")
_FLAGS = {
    "c_attn": "--scale-heads",
    "attn_ln": "--scale-attn",
    "ffn_layernorm": "--scale-fc",
    "w_resid": "--scale-resids",
}
_KNOWN = ("torch.nn.modules.", "fairseq.", "fairseq_specdec.")
# Noise on weights in training, and a backward pass with less memory: nothing in decoding.
_IDLE = ("fairseq.modules.quant_noise", "fairseq.modules.checkpoint_activations")
# What a part that is not known may raise where the engine reads or runs it.
_FAILURES = (AttributeError, RuntimeError, TypeError, ValueError)
# Words whose log-probabilities are compared; a whole vocabulary takes its time.
_WORDS = 64


class _Reads(TorchFunctionMode):
    """Records which tensors are computed with inside it, by their ids."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.__name__ != "__get__":  # an attribute, such as its precision
            for each in (*args, *kwargs.values()):
                many = isinstance(each, (list, tuple))
                self.seen.update(map(id, each if many else [each]))
        return func(*args, **kwargs)

    def missed(self, stack: nn.Module) -> str | None:
        """A parameter that was not read, with its flag if there is one."""
        for name, parameter in stack.named_parameters():
            if id(parameter) not in self.seen and not name.startswith(_ELSEWHERE):
                kind = type(stack.get_submodule(name.rpartition(".")[0])).__name__
                flags = [f" ({flag})" for part, flag in _FLAGS.items() if part in name.split(".")]
                return f"decoder.{name} of a {kind}{''.join(flags)}"
        return None


def is_decoder(module: Any) -> bool:
    """Whether a module is of a class that the engine runs as a verifier's decoder; a subclass is
    another class."""
    name = f"{type(module).__module__}.{type(module).__qualname__}"
    return type(module) in STOCK_DECODERS or name == _BLOCKWISE


def check_model(model: Any, name: str) -> None:
    """Refuse a fairseq Transformer that would decode differently here and in fairseq.

    A model whose weights are packed already was checked before.

    Args:
        model: of the right class, with its weights, on its device.
        name: what to call it in the error, e.g. ``--path``.

    Raises:
        UsageError: names the part where it is known.
    """
    decoder = model.decoder
    part = _changed(decoder)
    if part is None and not _is_packed(decoder.layers):
        part = _disproved(model, name) or _odd_layer(decoder.layers)
    if part is not None:
        remedy = "decode with --task translation"
        raise UsageError(name, f"speculative decoding does not run {part}", remedy)


@torch.no_grad()
def runs_encoder(encoder: Any) -> bool:
    """Whether the engine runs an encoder: reads all of it, and gives what its own code does for a
    short source. One that is packed was judged before."""
    if type(encoder) not in ENCODERS or _changed(encoder) is not None:
        return False
    layers = Encoder(encoder).layers
    if _is_packed(layers) or _odd_layer(layers) is not None:
        return _is_packed(layers)
    first, reads = _shortened(encoder), _Reads()
    try:
        with _evaluated(encoder):
            source = _short_source(encoder)
            stock = first.forward_torchscript(source)["encoder_out"][0]
            with reads:
                ours = EncoderWeights(first, packs=False)(source)["encoder_out"][0]
    except _FAILURES:  # its own code may say why
        return False
    return reads.missed(first) is None and _same(ours, stock, stock.dtype)


def _short_source(encoder: Any) -> dict[str, Tensor]:
    """``net_input`` of an encoder."""
    like = next(encoder.parameters())
    if isinstance(encoder, S2TTransformerEncoder):
        size = encoder.subsample.conv_layers[0].in_channels
        tokens = torch.arange(24 * size, device=like.device).sin().view(1, 24, size).to(like.dtype)
    else:
        last = encoder.embed_tokens.num_embeddings - 1
        tokens = torch.tensor([[last, last - 1, last]], device=like.device)
    return {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)], device=like.device)}


@torch.no_grad()
def _disproved(model: Any, name: str) -> str | None:
    """The part of a decoder that the engine does not run. Scores two tokens by the engine and by
    fairseq's code, with the first layer and the first words, after made-up encoder states."""
    if getattr(model.decoder, "adaptive_softmax", None) is not None:
        return "decoder.adaptive_softmax (--adaptive-softmax-cutoff)"
    first, reads = _shortened(model.decoder), _Reads()
    like, last = next(first.parameters()), first.embed_tokens.num_embeddings - 1
    tokens = torch.tensor([[last - 1, last]], device=like.device)
    attention = first.layers[0].encoder_attn if len(first.layers) else None
    width = first.embed_dim if attention is None else attention.kdim
    states = torch.arange(3 * width, device=like.device).sin().view(3, 1, width).to(like.dtype)
    encoded = {"encoder_out": [states], "encoder_padding_mask": []}
    with _evaluated(model):
        try:
            stock = _by_stock(model, first, tokens, encoded)
        except Exception as error:
            raise UsageError(name, f"fairseq cannot decode this model: {error}") from error
        try:
            with reads:
                ours = _by_engine(first, tokens, encoded)
        except _FAILURES as error:
            return f"a part of this model: {error}"
    missed = reads.missed(first)
    if missed is not None or _same(ours, stock, like.dtype):
        return missed
    kind = type(first).__name__
    return f"this model: its {kind} gives other log-probabilities in fairseq, because of a setting"


def _by_engine(decoder: Any, tokens: Tensor, encoded: dict[str, Any]) -> Tensor:
    """Log-probabilities [1, W, V] after a block of tokens (long [1, W]), by the engine."""
    width = tokens.size(1)
    embedding = Embedding(decoder, functools.partial(Linear, packs=False))
    positions = embedding.positions(width, encoded["encoder_out"][0])
    session = TorchDecoder(decoder, packs=False).open(encoded, width, embedding, positions)
    places = torch.arange(width, device=tokens.device).unsqueeze(0)
    features = session.run(tokens, Layout.at(places, [width - 1]))
    return session.logits(features).log_softmax(-1, dtype=torch.float32)


def _by_stock(model: Any, decoder: Any, tokens: Tensor, encoded: dict[str, Any]) -> Tensor:
    """The same as fairseq's generator computes them, token by token."""
    cache: dict[str, Any] = {}
    steps = []
    for width in range(1, tokens.size(1) + 1):
        outputs = decoder.forward(tokens[:, :width], encoder_out=encoded, incremental_state=cache)
        steps.append(model.get_normalized_probs(outputs, log_probs=True, sample=None))
    return torch.cat(steps, 1)


def _shortened(stack: Any) -> Any:
    """An encoder or decoder with the same modules, but of its layers the first alone, and of its
    vocabulary the first words. Beam search with fairseq's BART leaves its size in each layer."""
    made = copy.copy(stack)
    made._modules = dict(stack._modules)
    for name in ("layers", "transformer_layers"):
        if name in made._modules:
            some = made._modules[name] = copy.copy(made._modules[name])
            some._modules = {k: copy.copy(v) for k, v in some._modules.items() if k == "0"}
            for layer in some._modules.values():
                layer._modules = dict(layer._modules)
                if getattr(layer, "encoder_attn", None) is not None:
                    layer._modules["encoder_attn"] = copy.copy(layer.encoder_attn)
                    layer.encoder_attn.beam_size = 1
    projection = made._modules.get("output_projection")
    if type(projection) is nn.Linear:
        few = made._modules["output_projection"] = copy.copy(projection)
        few._parameters = {
            name: None if each is None else nn.Parameter(numbers(each)[:_WORDS].to(each.dtype))
            for name, each in projection._parameters.items()
        }
    return made


def _changed(stack: nn.Module) -> str | None:
    """What code in an encoder or decoder is neither torch's nor fairseq's: a class, a hook or a
    method replaced in one object. Hooks on the whole are not looked for: fairseq's
    generator calls ``forward``."""
    for name, module in stack.named_modules():
        kind, path = type(module), f"decoder.{name}".rstrip(".")
        if not kind.__module__.startswith(_KNOWN):
            return f"{path}, a {kind.__name__}"
        code = [v for k, v in vars(module).items() if callable(v) and callable(getattr(kind, k, 0))]
        if name:
            code += [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
        for each in code:
            function = getattr(each, "func", each)  # of a functools.partial
            if getattr(function, "__module__", "") not in _IDLE:
                return f"{path} with {getattr(function, '__qualname__', type(each).__name__)}()"
    return None


def _odd_layer(layers: nn.Module) -> str | None:
    """A module of a layer that differs from the first layer's in class, settings or parameters, in
    words; None where all are alike, so that checking the first layer is enough."""
    first: dict[str, Any] = {}
    for number, layer in layers.named_children():
        for name, part in layer.named_modules():
            settings = {k: v for k, v in vars(part).items() if isinstance(v, (bool, int, float))}
            parameters = [k for k, v in part._parameters.items() if v is not None]
            form = type(part), settings, parameters
            if first.setdefault(name, form if number == "0" else None) != form:
                kind = type(layer).__name__
                return f"decoder.layers.{number}.{name} ({kind}), which differs from layer 0's"
    return None


def _is_packed(layers: nn.Module) -> bool:
    return any(packed_source(weight) is not None for weight in layers.parameters())


def _same(ours: Tensor, stock: Tensor, dtype: torch.dtype) -> bool:
    """Whether two results of one computation in a precision differ by no more than rounding
    explains."""
    part = 1e-4 if dtype in (torch.float32, torch.float64) else 3e-2
    most = float(stock.float().nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(
        ours.float(), stock.float(), rtol=0, atol=part * max(1.0, most), equal_nan=True
    )


@contextlib.contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    """Within it a module and all in it are in evaluation mode."""
    training = [each for each in module.modules() if each.training]
    module.eval()
    try:
        yield
    finally:
        for each in training:
            each.training = True
