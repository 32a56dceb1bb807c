"""Which code runs a Transformer: torch operators on any device, or the native library on a CPU."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import Range, check_value
from fairseq_specdec.io.forks import Lock

from .memory import restore
from .native.decoder import NativeDecoder, NativeEncoder, NativeSession
from .native.library import ENVIRONMENT, Library, load, why_not
from .native.linear import NativeLinear
from .native.packed_file import number_format_of
from .native.stack import NativeStack, refusal
from .session import Encoder, StockEncoder
from .support import runs_encoder
from .torch_decoder import EncoderWeights, TorchDecoder, TorchSession
from .torch_graphs import Graphs, StaticCache, StaticEncoder, StaticSession

logger = logging.getLogger(__name__)

AnyDecoder = TorchDecoder | NativeDecoder
AnySession = TorchSession | NativeSession
AnyEncoder = Encoder | StockEncoder
T = TypeVar("T")

THREADS = Range(1, 1024, whole=True)  # that the native library takes


def anew(key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives, shared with nobody; called as a ``Once``."""
    return make()


class Once:
    """Makes each thing once, for all threads."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._lock = Lock()  # making one may take others

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gave for this key."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            made: T = self._made[key]
            return made


class Backend:
    """Runs encoders and decoders with torch operators, on any device.

    Args:
        graphs: passes over a chain and drafts are recorded as CUDA graphs; None to record nothing.
        once: a ``Once`` of the generators that share weights. Recorded graphs are not shared.
    """

    name = "torch"
    number_format = ""

    def __init__(self, graphs: Graphs | None = None, once: Any = anew) -> None:
        self.graphs = graphs
        self._once = once if graphs is None else anew

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gives, read once for this precision where weights are shared."""
        made: T = self._once((self.name, self.number_format, key), make)
        return made

    def decoder(
        self, decoder: Any, read_layers: Sequence[int] = (), encoder: Any = None
    ) -> AnyDecoder:
        """Read a decoder's weights; arguments as for ``TorchDecoder``. ``encoder``: may share the
        decoder's embeddings, which can then be freed too."""
        key = ("decoder", decoder, *read_layers)
        return self.once(key, lambda: self._decoder(decoder, read_layers, encoder))

    def encoder(self, encoder: Any) -> AnyEncoder:
        """Read an encoder's weights; arguments as for ``EncoderWeights``."""
        return self.once(("encoder", encoder), lambda: self._encoder(encoder))

    def _decoder(self, decoder: Any, read_layers: Sequence[int], encoder: Any) -> AnyDecoder:
        restore(decoder)
        if self.graphs is None or not len(decoder.layers):
            return TorchDecoder(decoder, read_layers)
        cache = functools.partial(StaticCache, self.graphs)
        return TorchDecoder(decoder, read_layers, cache=cache, session=StaticSession)

    def _encoder(self, encoder: Any) -> AnyEncoder:
        restore(encoder)
        if not runs_encoder(encoder):
            return StockEncoder(encoder)
        graphs = self.graphs
        return EncoderWeights(encoder) if graphs is None else StaticEncoder(graphs, encoder)

    def packing(self, number_format: str, frees: bool = True) -> Backend:
        """The same for the weights of a drafter in a format that only packed weights have.
        ``frees``: as this backend does; else nothing is freed."""
        raise UsageError(
            f"--drafter-dtype {number_format}",
            "needs the native backend",
            "use bf16, or see --backend",
        )

    def linear(self, weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        """A product of [out, in] and [out] or None."""
        return functools.partial(F.linear, weight=weight.detach(), bias=bias)


TORCH = Backend()


class NativeBackend(Backend):
    """Runs them in the native library. A stack that it does not run is run with torch as a whole,
    which is logged.

    Args:
        number_format: of the packed weights, one of ``devices.PACKED``. Models in bf16 are
            packed in bf16.
        frees: free the unpacked weight of every module whose weight is packed.
        once: as in ``Backend``.
        twin: format in which decoders are packed too, where weights are freed; or None.
    """

    name = "native"

    def __init__(
        self,
        library: Library,
        number_format: str = "fp32",
        frees: bool = False,
        once: Any = anew,
        twin: str | None = None,
    ) -> None:
        super().__init__(once=once)
        self.library, self.frees = library, frees
        self.number_format, self.twin = number_format, twin

    def _decoder(self, decoder: Any, read_layers: Sequence[int], encoder: Any) -> AnyDecoder:
        if _is_left_to_torch(decoder, "a decoder"):
            return super()._decoder(decoder, read_layers, encoder)
        stack = self.once(("stack", decoder), lambda: self._pack(decoder, encoder, self.twin))
        restore(decoder)  # what is not packed, as untied embeddings
        return NativeDecoder(decoder, stack, self.linear, read_layers)

    def _encoder(self, encoder: Any) -> AnyEncoder:
        if not runs_encoder(encoder) or _is_left_to_torch(Encoder(encoder), "an encoder"):
            return super()._encoder(encoder)
        stack = self._pack(Encoder(encoder))
        restore(encoder)
        return NativeEncoder(encoder, stack)

    def packing(self, number_format: str, frees: bool = True) -> Backend:
        return NativeBackend(self.library, number_format, self.frees and frees, self._once)

    def linear(self, weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
        return NativeLinear(self.library, weight, bias, self.number_format)

    def _pack(self, stack: Any, encoder: Any = None, twin: str | None = None) -> NativeStack:
        like = stack.layers[0].final_layer_norm.weight if len(stack.layers) else stack.like
        in_bf16 = like.dtype == torch.bfloat16
        number_format = "bf16" if in_bf16 else self.number_format
        return NativeStack(self.library, stack, number_format, self.frees, encoder, twin)


def set_threads(count: int) -> None:
    """Let so many threads share each large product, in torch and in the native library, for the
    whole process."""
    check_value("--threads", count, THREADS)
    torch.set_num_threads(count)
    library = load()
    if library is not None:
        library.set_threads(count)


def _is_left_to_torch(stack: Any, name: str) -> bool:
    reason = refusal(stack)
    if reason is not None:
        logger.info("%s runs on the torch backend: %s", name, reason)
    return reason is not None


BACKENDS = ("auto", "torch", "native")


def choose_backend(
    asked: str,
    models: Sequence[Any],
    number_format: str = "fp32",
    graphs: Graphs | None = None,
    frees: bool = False,
    once: Any = anew,
    twin: str | None = None,
) -> Backend:
    """The backend for models that are on their device and in their precision. ``asked``: one of
    ``BACKENDS``; "auto" takes the native one on a CPU where it is built. ``frees``, ``once``,
    ``twin``: as in the backends. Raises ValueError: "native" cannot be had, or a precision without
    it."""
    reason = why_not_native(asked, models)
    for packed in filter(None, map(number_format_of, models)):
        if reason is not None:
            raise UsageError(
                "--path",
                f"its weights are packed for the native backend, and {reason}",
                "use the checkpoint that they were packed from",
            )
        if packed != number_format:
            raise UsageError(
                f"--verifier-dtype {number_format}",
                f"the weights of --path are packed in {packed}",
                f"add --verifier-dtype {packed}, or use the checkpoint that they were packed from",
            )
    if reason is None:
        library = load()
        assert library is not None
        return NativeBackend(library, number_format, frees, once, twin)
    if number_format != "fp32":
        remedy = "leave out --backend torch" if asked == "torch" else ""
        problem = f"needs the native backend, and {reason}"
        raise UsageError(f"--verifier-dtype {number_format}", problem, remedy)
    if asked == "native":
        raise UsageError("--backend native", reason, "use --backend torch")
    if next(models[0].parameters()).is_cuda:
        # cuDNN's attention in 16 bits, which torch prefers on Hopper and Blackwell cards, is slow
        # to start: an iteration of Transformer-base took 36 ms with it on an H200, and 2.3 in fp32.
        torch.backends.cuda.enable_cudnn_sdp(False)
    if asked == "auto" and reason == why_not() and missing_engine():
        tell_once(missing_engine())
    elif asked == "auto":
        logger.info("--backend torch: %s", reason)
    return Backend(graphs, once)


def missing_engine() -> str:
    """What a user should know who has not got the native engine; "" where it is there, or off."""
    if os.environ.get(ENVIRONMENT) == "off" or load() is not None:
        return ""
    return f"the native engine is missing, torch is 3 to 10 times slower on a CPU: {why_not()}"


@functools.cache
def tell_once(message: str, level: int = logging.WARNING) -> None:
    """Log a message, once a process."""
    logger.log(level, "%s", message)


def quickest_format(asked: str, models: Sequence[Any]) -> str | None:
    """The number format in which a model takes least time beside these, where its output need not
    be theirs; None for their own."""
    library = load() if why_not_native(asked, models) is None else None
    # The oldest variant for ARM has no products of 8-bit integers.
    return None if library is None or library.variant == "aarch64" else "int8"


def why_not_native(asked: str, models: Sequence[Any]) -> str | None:
    """The reason why models do not run natively; the library last, since that can be fixed."""
    if asked == "torch":
        return "--backend torch was given"
    for model in models:
        parameter = next(model.parameters())
        if parameter.device.type != "cpu":
            return f"the models are on {parameter.device}"
        if parameter.dtype != torch.float32:
            return f"the models are in {str(parameter.dtype)[len('torch.') :]}"
        reason = refusal(model.decoder)
        if reason is not None:
            return f"the native library does not run the model: {reason}"
    return why_not() if load() is None else None
