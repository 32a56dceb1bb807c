"""The content of the checkpoint that a flag names: its weights and settings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from fairseq import checkpoint_utils
from omegaconf import OmegaConf, open_dict

from fairseq_specdec.errors import UsageError

from .reading import check_regular

_HISTORY = {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
# What fairseq reads beside the model, of a checkpoint that no training resumes.
UNTRAINED: dict[str, Any] = {
    "optimizer_history": [_HISTORY],
    "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    "task_state": {},
    "last_optimizer_state": None,
}


def check_file(flag: str, path: str) -> None:
    """Refuse what is no file."""
    if not os.path.exists(path):
        raise UsageError(flag, f"no such file: {path}")
    with named_by(flag, path):
        check_regular(path)


@contextlib.contextmanager
def named_by(flag: str, path: str) -> Iterator[None]:
    """Errors inside name the flag and the file that it names."""
    try:
        yield
    except UsageError as error:
        raise UsageError(flag, error) from error
    except Exception as error:  # torch and fairseq each raise their own
        said = f"{type(error).__name__}: {str(error)[:300]}"
        problem = f"{path} holds no model that can be read ({said})"
        raise UsageError(flag, problem, "is the file complete?") from error


def read_state(flag: str, path: str) -> dict[str, Any]:
    """Content of a checkpoint of fairseq, on the CPU: its ``model`` and, in ``cfg`` or ``args``,
    its settings."""
    check_file(flag, path)
    with named_by(flag, path):
        state: dict[str, Any] = checkpoint_utils.load_checkpoint_to_cpu(path)
    return state


def settings_of(state: dict[str, Any], part: str) -> Any:
    """The settings of ``model`` or ``task`` in a checkpoint of any age."""
    own = (state.get("cfg") or {}).get(part)
    return state.get("args") if own is None else own


def architecture(state: dict[str, Any]) -> str:
    """``--arch`` of a checkpoint's model."""
    settings = settings_of(state, "model")
    return str(get_setting(settings, "_name") or get_setting(settings, "arch"))


def get_setting(settings: Any, name: str) -> Any:
    """A setting or None: on omegaconf 2.0, ``getattr(config, name, default)`` has no default."""
    if isinstance(settings, dict) or OmegaConf.is_config(settings):
        return settings[name] if name in settings else None
    return getattr(settings, name, None)


def set_setting(settings: Any, **values: Any) -> None:
    """Set values in flags, a dictionary or a YAML's settings, in place, whether they are there."""
    if OmegaConf.is_config(settings):
        with open_dict(settings):
            settings.update(values)
    elif isinstance(settings, dict):
        settings.update(values)
    else:
        vars(settings).update(values)


def reads_speech(weights: Any) -> bool:
    """Whether a checkpoint's weights are those of a model of speech (fairseq's S2T)."""
    return any(name.startswith("encoder.subsample.") for name in weights)
