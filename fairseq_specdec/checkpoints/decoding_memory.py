"""Models that only decode are built and loaded without a copy of their weights."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from torch.overrides import TorchFunctionMode

from fairseq_specdec.commands.in_fairseq import DECODING, fairseq_command
from fairseq_specdec.compat.patch import wrap_once
from fairseq_specdec.engine.eager.stored_module import store
from fairseq_specdec.engine.native import packed_file

from .content import get_setting
from .reading import weights_mapped
from .settings import RefusedCheckpointError

_FIX = "load_decoding_models_in_little_memory"
# Of Tensor and of torch.nn.init.
_RANDOM = {
    f"{scale}{kind}_"
    for scale in ("", "xavier_", "kaiming_", "trunc_")
    for kind in ("uniform", "normal")
}

# Packed weights of the files that were read, by their paths; None outside of ``only_to_decode``.
_Packed = dict[str, Any] | None
_decoding: contextvars.ContextVar[_Packed] = contextvars.ContextVar("_decoding", default=None)


def load_decoding_models_in_little_memory() -> None:
    """Leave the weights of a model that is only decoded in its checkpoint's file.

    Fault: fairseq reads the file to memory, makes a model of random weights in float32 and copies
    the file's into it: 1.2 GB of weights in half precision take 5 GB.
    Versions: all.

    Concerned are fairseq-generate and fairseq-interactive with a task of this project, and whoever
    loads inside ``only_to_decode``. Nothing random is drawn for the weights, but with
    ``--sampling``, which draws what stock does with the same seed.
    """
    from fairseq import checkpoint_utils, models

    wrap_once(checkpoint_utils, "load_checkpoint_to_cpu", _FIX, _read)
    wrap_once(checkpoint_utils, "load_model_ensemble_and_task", _FIX, _load)
    wrap_once(models, "build_model", _FIX, _build)


@contextlib.contextmanager
def only_to_decode() -> Iterator[None]:
    """Models loaded inside, of tasks of this project, are used by its generators alone.

    What ``specdec-convert pack`` wrote is loaded nowhere else.
    """
    token = _decoding.set({})
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
    begun = _decoding.get() is not None
    if not (ours and whole and (begun or command)):
        token = _decoding.set(None)
        try:
            return original(filenames, *args, **kwargs)
        finally:
            _decoding.reset(token)
    with contextlib.nullcontext() if begun else only_to_decode():
        loaded = original(filenames, *args, **kwargs)
        for model, path in zip(loaded[0], map(str, filenames)):
            stored = (_decoding.get() or {}).pop(path, None)
            if stored is not None:
                _fitting(path, packed_file.attach, model, stored)
        return loaded


def _read(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    state = original(path, *args, **kwargs)
    stored, packed = state.pop(packed_file.KEY, None), _decoding.get()
    if stored is not None:
        if packed is None:
            raise RefusedCheckpointError(
                path,
                "its weights are packed for decoding alone, with fairseq-generate or "
                "fairseq-interactive and a task of this project, or from Python without "
                "keep_weights",
                "use the checkpoint that they were packed from",
            )
        _fitting(path, packed_file.check, stored)
        state["model"].update(packed_file.hollow(stored))
        packed[str(path)] = stored
    return state


def _fitting(path: Any, use: Any, *stored: Any) -> None:
    try:
        use(*stored)
    except packed_file.UnfitError as error:
        raise RefusedCheckpointError(path, error) from error


def _build(original: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    # fairseq replaces the modules of a model that is quantised, by their classes.
    if _decoding.get() is None or get_setting(cfg, "quant_noise_scalar"):
        return original(cfg, *args, **kwargs)
    with contextlib.nullcontext() if "--sampling" in sys.argv else _NotDrawn():
        model = original(cfg, *args, **kwargs)
    store(model)
    return model


class _NotDrawn(TorchFunctionMode):
    """Random numbers are not drawn, so that memory which is loaded later is not touched."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _RANDOM:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
