"""Models that only decode are built and loaded without a copy of their weights."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from typing import Any, Iterator

from torch.overrides import TorchFunctionMode

from fairseq_specdec.commands.in_fairseq import DECODING, fairseq_command
from fairseq_specdec.engine.eager.stored_module import store

from .patch import wrap_once
from .unpickling_files import weights_mapped

_FIX = "load_decoding_models_in_little_memory"
# Of Tensor and of torch.nn.init.
_RANDOM = {
    f"{scale}{kind}_"
    for scale in ("", "xavier_", "kaiming_", "trunc_")
    for kind in ("uniform", "normal")
}

_decoding: contextvars.ContextVar[bool] = contextvars.ContextVar("_decoding", default=False)


def load_decoding_models_in_little_memory() -> None:
    """Leave the weights of a model that is only decoded in its checkpoint's file.

    Fault: fairseq reads the file to memory, makes a model of random weights in float32 and copies
    the file's into it: 1.2 GB of weights in half precision take 5 GB.
    Versions: all.

    Concerned are fairseq-generate and fairseq-interactive with a task of this project, and whoever
    loads inside ``only_to_decode``. Nothing random is drawn for the weights, so that what is drawn
    later, by ``--sampling``, is something else than after stock's loading.
    """
    from fairseq import checkpoint_utils, models

    wrap_once(checkpoint_utils, "load_model_ensemble_and_task", _FIX, _load)
    wrap_once(models, "build_model", _FIX, _build)


@contextlib.contextmanager
def only_to_decode() -> Iterator[None]:
    """Models loaded inside, of tasks of this project, are used by its generators alone."""
    token = _decoding.set(True)
    try:
        with weights_mapped():
            yield
    finally:
        _decoding.reset(token)


def _load(original: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
    given = inspect.signature(original).bind(filenames, *args, **kwargs).arguments
    ours = getattr(given.get("task"), "decodes_speculatively", False)
    whole = given.get("strict", True) and given.get("num_shards", 1) == 1
    # A state that was read elsewhere is a drafter's, whose weights are not all packed.
    command = given.get("state") is None and fairseq_command() in DECODING
    if ours and whole and (_decoding.get() or command):
        with only_to_decode():
            return original(filenames, *args, **kwargs)
    token = _decoding.set(False)
    try:
        return original(filenames, *args, **kwargs)
    finally:
        _decoding.reset(token)


def _build(original: Any, *args: Any, **kwargs: Any) -> Any:
    if not _decoding.get():
        return original(*args, **kwargs)
    with _NotDrawn():
        model = original(*args, **kwargs)
    store(model)
    return model


class _NotDrawn(TorchFunctionMode):
    """Random numbers are not drawn, so that memory which is loaded later is not touched."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _RANDOM:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
