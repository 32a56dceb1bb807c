"""From an authors' or older drafter to this project's checkpoint format, and back.

A converted checkpoint holds what decoding needs, in plain containers that torch's safe loader reads
without any allow-list: weights, settings, and where they came from. Training state (optimizer,
position in the data) is left out.
"""

import argparse
import copy
import dataclasses
import enum
from typing import Any

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import UNTRAINED, architecture, get_setting, settings_of
from ..legacy.layout import ARCHITECTURES, CRITERION, OWN_ARCHITECTURE, TASK, to_authors, to_ours
from ..models.dictionary_digests import kept_digests
from ..models.drafter_config import drafter_config
from ..models.legacy_drafter import legacy_config

# Stored under extra_state by a conversion.
RECORD = "specdec_convert"
MASK = "decoder.mask_embedding"
# Settings of the task that decoding can use; the rest of it was for training.
TASK_SETTINGS = ("data", "source_lang", "target_lang", "left_pad_source", "left_pad_target")
# What of a drafter's settings neither its weights nor its decoding depend on.
TRAINING_ONLY = (
    "attach_to", "cache_verifier_states",
    "init_encoder_from", "init_decoder_from", "init_decoder_layers",
)  # fmt: skip


def plain(value: Any) -> Any:
    """Settings as plain containers: Namespaces and configs become dictionaries."""
    if OmegaConf.is_config(value):
        # Item by item: a Namespace within is no value that omegaconf itself would convert.
        if OmegaConf.is_list(value):
            return [plain(item) for item in value]
        return {str(key): plain(value[key]) for key in value}
    if isinstance(value, argparse.Namespace):
        return {key: plain(item) for key, item in vars(value).items()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def to_project(state: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """A drafter's checkpoint in this project's format. ``state``: a checkpoint as fairseq's loader
    returns it. ``source``: what was read: ``file``, ``bytes``, ``sha256``."""
    name, settings = architecture(state), settings_of(state, "model")
    weights = state["model"]
    whole = copy.deepcopy(settings)
    if name in ARCH_CONFIG_REGISTRY:  # settings that the checkpoint leaves out
        ARCH_CONFIG_REGISTRY[name](whole)
    record: dict[str, Any] = dict(source)
    if name in (OWN_ARCHITECTURE, *ARCHITECTURES):
        cfg, weights = legacy_config(whole), to_ours(weights)
        before = (state.get("extra_state") or {}).get(RECORD) or {}
        # All flags of their training, for the way back.
        record["settings"] = before.get("settings") or plain(settings)
        name = OWN_ARCHITECTURE
    elif MASK in weights:
        cfg = drafter_config(whole)
    else:
        raise UsageError(
            "",
            f"it holds a {name}, no block drafter",
            "verifiers need no conversion, --path reads them",
        )
    # A reference to another part of fairseq's config ("${common.tpu}") has no meaning here.
    described = plain(dataclasses.asdict(cfg)).items()
    model = {key: item for key, item in described if not str(item).startswith("${")}
    model.update({key: None for key in TRAINING_ONLY}, _name=name, arch=name, base_layers=0)
    model.update(kept_digests(settings, "the drafter"))
    task = settings_of(state, "task")
    kept = {key: plain(get_setting(task, key)) for key in TASK_SETTINGS}
    task = dict({key: item for key, item in kept.items() if item is not None}, _name="translation")
    return {
        "args": None,
        "cfg": {"model": model, "task": task},
        "model": dict(weights),
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, RECORD: record},
        **UNTRAINED,
    }


def to_released(state: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
    """A drafter's checkpoint in the authors' layout, with the settings as flags in ``args``."""
    name = architecture(state)
    if name not in (OWN_ARCHITECTURE, *ARCHITECTURES):
        raise UsageError(
            "",
            f"it holds a {name}, which the authors' layout has no place for (its mask is no "
            "<unk>, and its first position holds the start symbol)",
            "only drafters that came from them go back",
        )
    extra = state.get("extra_state") or {}
    settings = (extra.get(RECORD) or {}).get("settings") or plain(settings_of(state, "model"))
    settings = copy.deepcopy(settings)
    settings.setdefault("arch", ARCHITECTURES[0])
    settings.setdefault("task", TASK)
    settings.setdefault("criterion", CRITERION)
    weights = to_authors(state["model"], torch.tensor([3.0]))
    return {
        "args": argparse.Namespace(**settings),
        "cfg": None,
        "model": dict(weights),
        "extra_state": {
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 0},
            RECORD: dict(source),
        },
        **UNTRAINED,
    }


def equal(ours: Any, theirs: Any) -> bool:
    """Whether two contents of checkpoints are the same: types, values, tensors bit for bit."""
    if isinstance(ours, argparse.Namespace) and isinstance(theirs, argparse.Namespace):
        return equal(vars(ours), vars(theirs))
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, torch.Tensor):
        return ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(equal(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    return bool(ours == theirs)
