"""Settings that would run a command, or read what is not theirs, and checkpoints that hold them."""

import argparse
import copy

import torch
from omegaconf import OmegaConf, _utils

# Text that fairseq would pass to ``eval``; {} is a command that leaves a trace.
PROGRAMS = {
    "a call": "__import__('os').system({})",
    "nested containers": "[[[({{'a': [__import__('os').system({})]}},)]]]",
    "a key of a dictionary": "{{__import__('os').system({}): 1}}",
    "a default of a lambda": "(lambda x=__import__('os').system({}): [1])()",
    "white space": " \t__import__('os').system({})\t ",
    "a comment": "__import__('os').system({}) # (0.9, 0.98)",
    "other letters": "__ımport__".replace("ı", "i") + "('os').𝓼𝔂𝓼𝓽𝓮𝓶({})",
}

# Settings with an interpolation: (name of the setting: text). Resolved, each runs a command in
# the setting that fairseq passes to ``eval``, or reads the environment.
INTERPOLATIONS = {
    "another setting": {
        "aux_path": "[__import__('os').system({})]",
        "adaptive_softmax_cutoff": "${{model.aux_path}}",
    },
    "the environment": {"decoder_input_dim": "${{oc.env:HOME}}"},
    "inside a list": {"no_such_setting": ["x", ["${{model.aa}}"]]},
    "inside a dictionary": {"no_such_setting": {"a": {"b": "x${{model.aa}}"}}},
    "the name of an entry": {"no_such_setting": {"${{oc.env:HOME}}": 1}},
    "escaped": {"no_such_setting": "\\${{oc.env:HOME}}"},
}

# Settings that are no interpolation in the file, and become one as fairseq converts a Namespace.
HIDDEN = {
    "an escape in a number": {"seed": "'\\x24{{oc.env:SPECDEC_SECRET}}'"},
    "joined literals": {"seed": "'$' '{{oc.env:SPECDEC_SECRET}}'"},
    "backslashes in a tokenizer": {"tokenizer": "$\\{{oc.env:SPECDEC_SECRET\\}}"},
    "another setting": {"seed": "'\\x24{{common.log_format}}'"},
}

SETTINGS = ("adaptive_softmax_cutoff", "encoder_xformers_att_config")


def filled(value, command):
    """``value`` with the command in the place of {}."""
    if isinstance(value, str):
        return value.format(repr(command))
    if isinstance(value, list):
        return [filled(item, command) for item in value]
    if isinstance(value, dict):
        return {filled(key, command): filled(item, command) for key, item in value.items()}
    return value


def with_settings(state, settings, layout):
    """A checkpoint's content with settings of the model, in the layout of 0.12 or the older one."""
    state = copy.copy(state)
    old = state["cfg"]["model"]
    model = dict(vars(old) if isinstance(old, argparse.Namespace) else OmegaConf.to_container(old))
    model.update(settings)
    if layout == "args":
        for group in ("task", "criterion", "optimizer", "lr_scheduler"):
            model.setdefault(group, "translation" if group == "task" else None)
        model.update(arch=model.pop("_name", None) or model.get("arch"), task="translation")
        model.setdefault("data", "x")
        names = ("source_lang", "target_lang")
        model.update({name: state["cfg"]["task"][name] for name in names})
        state.update(args=argparse.Namespace(**model), cfg=None)
    else:
        cfg = OmegaConf.to_container(state["cfg"]) if OmegaConf.is_config(state["cfg"]) else None
        cfg = dict(cfg if cfg is not None else state["cfg"])
        cfg["model"] = argparse.Namespace(**model) if layout == "namespace" else model
        state.update(args=None, cfg=cfg)
    return state


def write(path, state, settings, layout="cfg"):
    """Save a checkpoint with these settings of the model."""
    torch.save(with_settings(state, settings, layout), str(path))
    return str(path)


def config_of(parts):
    """A DictConfig whose parts may be Namespaces, as fairseq 1.0.0a0 made it."""
    primitive = getattr(_utils, "is_primitive_type", None)
    if primitive is None:
        config = OmegaConf.create({}, flags={"allow_objects": True})
        for name, part in parts.items():
            config[name] = part
        return config
    try:  # omegaconf 2.0 knows no allow_objects; fairseq gets by in the same way
        _utils.is_primitive_type = lambda _: True
        return OmegaConf.create(parts)
    finally:
        _utils.is_primitive_type = primitive
