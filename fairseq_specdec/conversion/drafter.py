"""``specdec-convert drafter``: a drafter of the authors, or an older one, in the current format.

Both decode as they are. A converted one is smaller: it holds what decoding needs in plain
containers.
"""

import argparse
import copy
import dataclasses
import enum
import logging
from typing import Any

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_specdec.checkpoints.content import (
    UNTRAINED,
    architecture,
    get_setting,
    read_state,
    settings_of,
)
from fairseq_specdec.checkpoints.reading import reading
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file, replacing
from fairseq_specdec.io.flag_values import add_flag
from fairseq_specdec.models.drafter_config import drafter_config
from fairseq_specdec.models.legacy_drafter import (
    ARCHITECTURES,
    OWN_ARCHITECTURE,
    legacy_config,
    to_ours,
)

logger = logging.getLogger(__name__)

# Settings of the task that decoding can use; the rest of it was for training.
TASK_SETTINGS = ("data", "source_lang", "target_lang", "left_pad_source", "left_pad_target")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of ``specdec-convert drafter``."""
    parser.set_defaults(run=main)
    parser.add_argument("input", help="checkpoint to read")
    parser.add_argument("output", help="checkpoint to write; its folder must exist")
    add_flag(parser, "--force", "replace OUTPUT if it is there", default=False)


def plain(value: Any) -> Any:
    """Settings as plain containers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def to_project(state: dict[str, Any]) -> dict[str, Any]:
    """A drafter's checkpoint in this project's format. ``state``: a checkpoint as fairseq's loader
    returns it."""
    name, settings, weights = architecture(state), settings_of(state, "model"), state["model"]
    whole = copy.deepcopy(settings)
    if name in ARCH_CONFIG_REGISTRY:  # settings that the checkpoint leaves out
        ARCH_CONFIG_REGISTRY[name](whole)
    legacy = name in (OWN_ARCHITECTURE, *ARCHITECTURES)
    if not legacy and "decoder.mask_embedding" not in weights:
        problem = f"it holds a {name}, no block drafter"
        raise UsageError("", problem, "verifiers need no conversion, --path reads them")
    with reading(path="the drafter"):  # the files of its training are left out
        cfg = legacy_config(whole) if legacy else drafter_config(whole)
    if legacy:
        weights, name = to_ours(weights), OWN_ARCHITECTURE
    # A reference to another part of fairseq's config ("${common.tpu}") has no meaning here.
    described = plain(dataclasses.asdict(cfg)).items()
    model = {key: item for key, item in described if not str(item).startswith("${")}
    model.update(_name=name, arch=name, base_layers=0)
    before = settings_of(state, "task")
    task = {key: plain(get_setting(before, key)) for key in TASK_SETTINGS}
    task = {key: item for key, item in task.items() if item is not None}
    settings = {"model": model, "task": {**task, "_name": "translation"}}
    return {**UNTRAINED, "args": None, "cfg": settings, "model": weights}


def main(args: argparse.Namespace) -> None:
    check_new_file(args.output, "output", args.force)
    state = read_state("input", args.input)
    try:
        converted = to_project(state)
    except ValueError as error:
        raise UsageError(args.input, error) from error
    with replacing(args.output, "wb") as stream:
        torch.save(converted, stream)
    logger.info("%s: written from %s", args.output, args.input)
