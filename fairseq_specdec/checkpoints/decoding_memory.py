"""Models that only decode are built and loaded without a copy of their weights.

fairseq reads the file to memory, makes a model of random weights in float32 and copies the file's
into it: 1.2 GB of weights in half precision take 5 GB. Nothing random is drawn here for the
weights, but with ``--sampling``, which draws what stock does with the same seed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.overrides import TorchFunctionMode

from fairseq_specdec.engine.memory import store
from fairseq_specdec.engine.native import packed_file

from .content import get_setting
from .reading import current, reading
from .settings import RefusedCheckpointError

# Of Tensor and of torch.nn.init.
_RANDOM = {
    f"{scale}{kind}_"
    for scale in ("", "xavier_", "kaiming_", "trunc_")
    for kind in ("uniform", "normal")
}


@contextlib.contextmanager
def only_to_decode() -> Iterator[None]:
    """Models loaded inside, of tasks of this project, are used by its generators alone.

    What ``specdec-convert pack`` wrote is loaded nowhere else.
    """
    with reading(packed={}, mapped=True):
        yield


def attach_packed(models: Sequence[Any], paths: Sequence[Any]) -> None:
    """Give models their packed weights."""
    for model, path in zip(models, map(str, paths)):
        stored = (current.get().packed or {}).pop(path, None)
        if stored is not None:
            _fitting(path, packed_file.attach, model, stored)


def take_packed(path: Any, state: dict[str, Any]) -> None:
    """Let weights of a file's content that are packed wait for their model."""
    stored, packed = state.pop(packed_file.KEY, None), current.get().packed
    if stored is None:
        return
    if packed is None:
        problem = "its weights are packed for decoding alone, with fairseq-generate or "
        problem += "fairseq-interactive and a task of this project, or from Python without "
        remedy = "use the checkpoint that they were packed from"
        raise RefusedCheckpointError(path, f"{problem}keep_weights", remedy)
    _fitting(path, packed_file.check, stored)
    state["model"].update(packed_file.hollow(stored))
    packed[str(path)] = stored


def _fitting(path: Any, use: Any, *stored: Any) -> None:
    try:
        use(*stored)
    except packed_file.UnfitError as error:
        raise RefusedCheckpointError(path, error) from error


def built(cfg: Any, make: Callable[[], Any]) -> Any:
    """The model that ``make`` builds, its weights not drawn if they are loaded to be decoded."""
    # fairseq replaces the modules of a model that is quantised, by their classes.
    if current.get().packed is None or get_setting(cfg, "quant_noise_scalar"):
        return make()
    with contextlib.nullcontext() if "--sampling" in sys.argv else _NotDrawn():
        model = make()
    store(model)
    return model


class _NotDrawn(TorchFunctionMode):
    """Random numbers are not drawn, so that memory which is loaded later is not touched."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _RANDOM:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
