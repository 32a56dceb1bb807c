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
from collections.abc import Callable, Iterator
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

from .memory import numbers, packed_source
from .session import Embedding, Encoder
from .state import Layout
from .torch_decoder import EncoderWeights, TorchDecoder
from .torch_layers import Linear

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
_Run = Callable[[Any], Tensor]


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
    if part is None and getattr(decoder, "adaptive_softmax", None) is not None:
        part = "decoder.adaptive_softmax (--adaptive-softmax-cutoff)"
    if part is None and not any(map(packed_source, decoder.layers.parameters())):
        like, last = next(decoder.parameters()), decoder.embed_tokens.num_embeddings - 1
        tokens = torch.tensor([[last - 1, last]], device=like.device)
        attention = decoder.layers[0].encoder_attn if len(decoder.layers) else None
        width = decoder.embed_dim if attention is None else attention.kdim
        states = torch.arange(3 * width, device=like.device).sin().view(3, 1, width).to(like.dtype)
        encoded = {"encoder_out": [states], "encoder_padding_mask": []}

        def by_stock(decoder: Any) -> Tensor:
            try:
                return _by_stock(model, decoder, tokens, encoded)
            except Exception as error:
                raise UsageError(name, f"fairseq cannot decode this model: {error}") from error

        part = _disproved(decoder, by_stock, lambda decoder: _by_engine(decoder, tokens, encoded))
        part = part or _odd_layer(decoder.layers)
    if part is not None:
        remedy = "decode with --task translation"
        raise UsageError(name, f"speculative decoding does not run {part}", remedy)


def runs_encoder(encoder: Any) -> bool:
    """Whether the engine runs an encoder: reads all of it, and gives what its own code does for a
    short source. One that is packed was judged before."""
    if type(encoder) not in ENCODERS or _changed(encoder) is not None:
        return False
    layers = Encoder(encoder).layers
    if any(map(packed_source, layers.parameters())):
        return True
    if _odd_layer(layers) is not None:
        return False
    try:
        source = _short_source(encoder)
        return not _disproved(
            encoder,
            lambda encoder: encoder.forward_torchscript(source)["encoder_out"][0],
            lambda encoder: EncoderWeights(encoder, packs=False)(source)["encoder_out"][0],
        )
    except _FAILURES:  # its own code may say why
        return False


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
def _disproved(stack: Any, by_stock: _Run, by_engine: _Run) -> str | None:
    """The part of an encoder or decoder that the engine does not run, if both ways to run it, with
    the first layer and the first words, give other numbers or not all parameters are read."""
    first, reads = _shortened(stack), _Reads()
    with _evaluated(stack):
        stock = by_stock(first)
        try:
            with reads:
                ours = by_engine(first)
        except _FAILURES as error:
            return f"a part of this model: {error}"
    missed = reads.missed(first)
    if missed is not None:
        return missed
    # No more than rounding explains.
    exact = next(first.parameters()).dtype in (torch.float32, torch.float64)
    most = max(1.0, float(stock.float().nan_to_num(0.0, 0.0, 0.0).abs().max()))
    apart = (1e-4 if exact else 3e-2) * most
    if torch.allclose(ours.float(), stock.float(), rtol=0, atol=apart, equal_nan=True):
        return None
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
