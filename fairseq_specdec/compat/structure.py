"""Files that hold something else than a model are named, with what they are."""

import argparse
from typing import Any

import torch

from .settings import RefusedCheckpointError

_REMEDY = "name a checkpoint that fairseq-train wrote"
# Of cfg; both are read before fairseq composes the configuration.
_GROUPS = ("model", "task")
# Stock cannot build a decoder where one of these is 0.
_COUNTS = ("decoder_layers", "encoder_attention_heads", "decoder_attention_heads")
# A drafter that has it reads its verifier's states, and needs no layers.
_HEAD = "decoder.mask_states.project.weight"


def check_structure(state: Any, path: str) -> None:
    """Refuse what is no checkpoint of fairseq. Raises RefusedCheckpointError: names the file, what
    it holds and the remedy."""
    if not isinstance(state, dict):
        what = "nothing (None)" if state is None else f"a {type(state).__name__}"
        raise RefusedCheckpointError(path, f"holds {what}, no checkpoint", _REMEDY)
    if "model" not in state:
        weights = bool(state) and all(isinstance(each, torch.Tensor) for each in state.values())
        what = "weights without the settings of their model" if weights else "no model"
        raise RefusedCheckpointError(path, f"holds {what}", _REMEDY)
    model = state["model"]
    if not isinstance(model, dict):
        raise RefusedCheckpointError(
            path,
            f"its model is {'None' if model is None else f'a {type(model).__name__}'}, not "
            "weights by name",
            _REMEDY,
        )
    if not model:
        raise RefusedCheckpointError(path, "its model has no weights", _REMEDY)
    if state.get("args") is None and state.get("cfg") is None:
        raise RefusedCheckpointError(path, "has neither args nor cfg", _REMEDY)
    _check_groups(state.get("cfg"), path)
    _check_counts(state, path)


def _check_groups(cfg: Any, path: str) -> None:
    """Raise where the settings of the model or the task are no settings."""
    for name in _GROUPS if isinstance(cfg, dict) else ():
        group = cfg.get(name)
        if not isinstance(group, (type(None), dict, argparse.Namespace)):
            raise RefusedCheckpointError(
                path,
                f"its {name} in cfg is a {type(group).__name__}, not settings by name",
                _REMEDY,
            )


def _check_counts(state: Any, path: str) -> None:
    """Raise for a Transformer that has no decoder layer or no head."""
    settings = state.get("args")
    if isinstance(settings, argparse.Namespace):
        settings = vars(settings)
    elif isinstance(state.get("cfg"), dict):
        settings = state["cfg"].get("model")
        settings = vars(settings) if isinstance(settings, argparse.Namespace) else settings
    if not isinstance(settings, dict) or not any(
        str(name).startswith("decoder.") for name in state["model"]
    ):
        return
    for name in _COUNTS:
        value = settings.get(name)
        if value == 0 and name == "decoder_layers" and _HEAD in state["model"]:
            continue
        if type(value) is int and value < 1:
            raise RefusedCheckpointError(
                path, f"its setting {name} is {value}, and a Transformer needs at least 1", _REMEDY
            )
