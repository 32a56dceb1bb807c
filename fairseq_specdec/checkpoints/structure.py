"""Files that hold something else than a model are named, with what they are."""

import argparse
from typing import Any

import torch

from .settings import RefusedCheckpointError

# Stock cannot build a decoder where one of these is 0.
_COUNTS = ("decoder_layers", "encoder_attention_heads", "decoder_attention_heads")
# A drafter that has it reads its verifier's states, and needs no layers.
_HEAD = "decoder.mask_states.project.weight"


def check_structure(state: Any, path: str) -> None:
    """Refuse what is no checkpoint of fairseq. Raises RefusedCheckpointError: names the file, what
    it holds and the remedy."""
    problem = _problem(state)
    if problem:
        raise RefusedCheckpointError(path, problem, "name a checkpoint that fairseq-train wrote")


def _problem(state: Any) -> str:
    if not isinstance(state, dict):
        what = "nothing (None)" if state is None else f"a {type(state).__name__}"
        return f"holds {what}, no checkpoint"
    if "model" not in state:
        weights = bool(state) and all(isinstance(each, torch.Tensor) for each in state.values())
        return f"holds {'weights without the settings of their' if weights else 'no'} model"
    model, args, cfg = state["model"], state.get("args"), state.get("cfg") or {}
    if not isinstance(model, dict):
        what = "None" if model is None else f"a {type(model).__name__}"
        return f"its model is {what}, not weights by name"
    if not model:
        return "its model has no weights"
    if args is None and state.get("cfg") is None:
        return "has neither args nor cfg"
    for name in ("model", "task"):
        if not isinstance(cfg.get(name), (type(None), dict, argparse.Namespace)):
            return f"its {name} in cfg is a {type(cfg[name]).__name__}, not settings by name"
    settings = cfg.get("model") if args is None else args
    settings = vars(settings) if isinstance(settings, argparse.Namespace) else settings or {}
    if any(str(name).startswith("decoder.") for name in model):
        for name in _COUNTS:
            value = settings.get(name)
            headed = name == "decoder_layers" and value == 0 and _HEAD in model
            if type(value) is int and value < 1 and not headed:
                return f"its setting {name} is {value}, and a Transformer needs at least 1"
    return ""
