"""Which architectures are built from a checkpoint's settings."""

from __future__ import annotations

import contextlib
import contextvars
import os
from typing import Any, Iterator, Optional

from .literals import NotLiteralError, parse_settings_as_literals
from .patch import wrap_once
from .settings import RefusedCheckpointError

VARIABLE = "FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES"

# Model classes of fairseq 0.12.1 to 0.12.3 whose code was read: settings reach nothing but sizes,
# names of functions in tables, fairseq's eval of lists (literals, see literals.py) and the files
# of pretrained embeddings, which are read as text.
_READ = frozenset(
    (
        "fairseq.models.transformer.transformer_base.TransformerModelBase",
        "fairseq.models.transformer.transformer_legacy.TransformerModel",
        "fairseq.models.transformer_align.TransformerAlignModel",
        "fairseq.models.transformer_lm.TransformerLanguageModel",
        "fairseq.models.bart.model.BARTModel",
        "fairseq.models.lstm.LSTMModel",
    )
)
_OWN = "fairseq_specdec."

_FIX = "build_known_architectures_from_checkpoints"
_building: contextvars.ContextVar[Optional[str]] = contextvars.ContextVar("_building")


def build_known_architectures_from_checkpoints() -> None:
    """Build only architectures from checkpoints whose code is known to run no setting.

    Fault: a checkpoint chooses the architecture, and with it the code that reads its settings.
    Versions: all. Training builds its model from the command line and is not concerned, nor is
    reading a checkpoint's weights. The variable ``FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES`` adds
    architectures by name, separated by commas.
    """
    from fairseq import checkpoint_utils, models

    wrap_once(checkpoint_utils, "load_checkpoint_to_cpu", _FIX, _read)
    wrap_once(checkpoint_utils, "load_model_ensemble_and_task", _FIX, _load)
    wrap_once(models, "build_model", _FIX, _build)


@contextlib.contextmanager
def building_from(path: str) -> Iterator[None]:
    """Models built inside come from this checkpoint's settings."""
    token = _building.set(str(path))
    try:
        yield
    finally:
        _building.reset(token)


def built_from() -> Optional[str]:
    """The checkpoint whose settings a model is being built from; None for a command line's."""
    return _building.get(None)


def _load(original: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
    with building_from(filenames[0] if filenames else "?"):
        return original(filenames, *args, **kwargs)


def _read(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    state = original(path, *args, **kwargs)
    if _building.get(None) is not None:
        _building.set(str(path))  # an ensemble's next file; building_from takes it back
    return state


def _build(original: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    path = _building.get(None)
    if path is None:
        return original(cfg, *args, **kwargs)
    _check(cfg, path)
    parse_settings_as_literals()  # modules of fairseq that were loaded since
    try:
        return original(cfg, *args, **kwargs)
    except NotLiteralError as error:
        name = _setting_of(cfg, error.text)
        message = f"{path}: its setting {name}: {error}; do not use this checkpoint"
        raise RefusedCheckpointError(message) from error


def _check(cfg: Any, path: str) -> None:
    """Raise for an architecture that is neither known nor trusted by the user."""
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    if not name and len(cfg) == 1:
        name = next(iter(cfg))
    model = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    trusted = [word.strip() for word in os.environ.get(VARIABLE, "").split(",")]
    if model is None or name in trusted:
        return  # fairseq says what it does not know
    full = f"{model.__module__}.{model.__qualname__}"
    if full in _READ or full.startswith(_OWN):
        return
    raise RefusedCheckpointError(
        f"{path}: its architecture {name} ({full}) is not built from a checkpoint, since its code "
        f"may run settings of the file; if you trust the file, set {VARIABLE}={name}"
    )


def _setting_of(cfg: Any, text: str) -> str:
    """The name of the setting that has the value ``text``."""
    items = cfg.items() if hasattr(cfg, "items") else vars(cfg).items()
    return next((str(name) for name, value in items if value == text), "model")
