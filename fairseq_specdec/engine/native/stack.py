"""The weights of a fairseq Transformer's encoder or decoder, packed in the native library."""

import contextlib
import ctypes
import functools
from typing import Any

import torch
from fairseq import utils
from torch import Tensor, nn

from ..memory import give_back_freed_memory, numbers, packed_source, replace
from ..state import floats, pointer
from .library import Library
from .linear import NativeLinear
from .structures import Shape

# specdec::Part and specdec::NormPart (transformer.h).
_QKV, _OUT, _CROSS_QUERY, _CROSS_KEY_VALUE, _CROSS_OUT, _INNER, _OUTER, _VOCABULARY = range(8)
_SELF_NORM, _CROSS_NORM, _INNER_NORM, _FINAL_NORM = range(4)


# In the order of specdec::Activation (activation.h). "gelu_fast" is another name of gelu_accurate.
_ACTIVATIONS = ("relu", "gelu", "gelu_accurate", "tanh", "swish", "relu_squared", "linear")


def _code(function: Any) -> Any:
    """What two functions of one definition share: fairseq defines "linear" anew for each layer."""
    return getattr(function, "__code__", function)


@functools.cache
def _known_activations() -> dict[Any, int]:
    """The numbers of the activations that this fairseq has, by their code."""
    numbers = {}
    for number, name in enumerate(_ACTIVATIONS):
        with contextlib.suppress(RuntimeError):  # an older fairseq's
            numbers[_code(utils.get_activation_fn(name))] = number
    return numbers


def activation_number(function: Any) -> int | None:
    """As the library numbers it; None for one that it does not run."""
    return _known_activations().get(_code(function))


def refusal(stack: Any) -> str | None:
    """Why an encoder or decoder, whose layers differ in weights alone, is not run natively, in
    words; None if it is."""
    layers = list(stack.layers)
    if not layers:  # a drafter's may do without
        return None if hasattr(stack, "like") else "it has no layers"
    for layer in layers:
        function = layer.activation_fn
        if _code(function) not in _known_activations():
            return f"its activation {getattr(function, '__name__', '')} is not run there"
        if _code(function) != _code(layers[0].activation_fn):
            return "its layers have several activations"
    if getattr(stack, "positions_in_every_layer", False):
        return "its positions are added before every layer"
    narrow = getattr(stack, "project_out_dim", None)
    words = getattr(stack, "output_projection", None)
    width = layers[0].self_attn.embed_dim if narrow is None else narrow.out_features
    if words is not None and words.in_features != width:  # it would read foreign memory
        return f"its vocabulary reads {words.in_features} numbers and gets {width}"
    return None


def _shape(stack: Any) -> Shape:
    """An encoder or decoder; without layers, a decoder's norm and vocabulary."""
    if not len(stack.layers):
        width = stack.output_projection.in_features
        return Shape(0, width, 1, 1, 1, 0, 1, 0, width, width)
    first = stack.layers[0]
    decoder = hasattr(first, "encoder_attn")
    cross = decoder and first.encoder_attn is not None
    width = int(first.self_attn.embed_dim)
    projection = getattr(stack, "output_projection", None)
    return Shape(
        len(stack.layers),
        width,
        first.fc1.out_features,
        first.self_attn.num_heads,
        int(decoder),
        int(cross),
        int(bool(first.normalize_before)),
        _known_activations()[_code(first.activation_fn)],
        first.encoder_attn.k_proj.in_features if cross else width,
        width if projection is None else projection.in_features,
    )


class NativeStack:
    """Packed weights; threads share them.

    Attributes:
        pointer: of the library's ``Stack``.
        width: C.
        words: V, 0 without a vocabulary.
        nbytes: of the packed weights.

    Args:
        stack: a fairseq encoder or decoder without a reason for ``refusal``.
        number_format: one of ``PACKED``.
        free_unpacked: free the weights of the stack's modules that are packed. Reading one then
            unpacks it; of a format that rounds, it raises UsageError.
        encoder: may share a decoder's embeddings, which are freed in both.
        twin: format that weights are packed in too, before they are freed; None for no other.
    """

    def __init__(
        self,
        library: Library,
        stack: Any,
        number_format: str = "fp32",
        free_unpacked: bool = False,
        encoder: Any = None,
        twin: str | None = None,
    ) -> None:
        self.library = library
        self.frees = free_unpacked
        self.number_format = number_format
        self.twin = twin if free_unpacked else None
        self.nbytes = 0
        shape = _shape(stack)
        self.width = shape.width
        self.pointer = library.make(self, "stack", ctypes.byref(shape))
        for i, layer in enumerate(stack.layers):
            self._read_layer(i, layer, bool(shape.cross))
        if stack.layer_norm is not None:
            self._norm(0, _FINAL_NORM, stack.layer_norm)
        self.words = 0
        if getattr(stack, "output_projection", None) is not None:
            self.words = self._vocabulary(stack, encoder)
        library.call("specdec_stack_finish", self.pointer)
        if self.frees:
            give_back_freed_memory()

    def _read_layer(self, i: int, layer: Any, cross: bool) -> None:
        attention = layer.self_attn
        self._matrix(i, _QKV, attention.q_proj, attention.k_proj, attention.v_proj)
        self._matrix(i, _OUT, attention.out_proj)
        self._matrix(i, _INNER, layer.fc1)
        self._matrix(i, _OUTER, layer.fc2)
        self._norm(i, _SELF_NORM, layer.self_attn_layer_norm)
        self._norm(i, _INNER_NORM, layer.final_layer_norm)
        if cross:
            attention = layer.encoder_attn
            self._matrix(i, _CROSS_QUERY, attention.q_proj)
            self._matrix(i, _CROSS_KEY_VALUE, attention.k_proj, attention.v_proj)
            self._matrix(i, _CROSS_OUT, attention.out_proj)
            self._norm(i, _CROSS_NORM, layer.encoder_attn_layer_norm)

    def _matrix(self, layer: int, part: int, *modules: Any) -> None:
        product = self._product(layer, part, modules)
        if self.frees:
            replace(modules, product)

    def _product(self, layer: int, part: int, modules: Any) -> NativeLinear:
        product = NativeLinear.of(self.library, modules, self.number_format)
        if self.twin is not None and packed_source(modules[0]) is None:
            product.others = (NativeLinear.of(self.library, modules, self.twin),)
        self.nbytes += product.nbytes
        self.library.call("specdec_stack_matrix", self.pointer, layer, part, product.pointer)
        return product

    def _vocabulary(self, decoder: Any, encoder: Any) -> int:
        """Pack the output projection, of V words. Embeddings that are tied to it look up its packed
        rows, if they are exact, else those of a packed table."""
        projection = decoder.output_projection
        product = self._product(0, _VOCABULARY, (projection,))
        if not self.frees or packed_source(projection) is not None:
            return product.size
        tables = {decoder.embed_tokens, getattr(encoder, "embed_tokens", None)}
        weight = projection._parameters["weight"]
        tied = [t for t in tables if t is not None and t._parameters.get("weight") is weight]
        if not product.exact and (tied or getattr(decoder, "chain", None) is not None):
            rounded = product
            product = NativeLinear(self.library, numbers(weight), None, "fp32", weight.dtype)
            product.others = (rounded, *rounded.others)
        if all(table.max_norm is None for table in tied):  # else a look-up changes the weight
            replace([projection], product, tied)
        return product.size

    def _norm(self, layer: int, part: int, norm: nn.LayerNorm) -> None:
        weight, bias = floats(norm.weight), floats(norm.bias)
        self.library.call(
            "specdec_stack_norm", self.pointer, layer, part, weight.numel(), pointer(weight),
            pointer(bias), norm.eps,
        )  # fmt: skip

    def logits(self, features: Tensor) -> Tensor:
        """[.., V] of features [.., C'], float32."""
        features = features.float().contiguous()
        shape = features.shape[:-1]
        logits = torch.empty(*shape, self.words)
        self.library.call(
            "specdec_logits", self.pointer, shape.numel(), features.size(-1), pointer(features),
            pointer(logits),
        )  # fmt: skip
        return logits
