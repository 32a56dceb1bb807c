"""What a distilled corpus was made with: settings that must not change midway, and provenance."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from fairseq import utils
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from fairseq_specdec.errors import UsageError

from ..io.provenance import command_line, origin, sha256
from .corpus import Corpus

PACKAGES = ("fairseq_specdec", "fairseq", "torch", "numpy")


def _plain(value: Any) -> Any:
    """A JSON-serialisable twin of a configuration value; a file's name becomes its SHA-256."""
    if isinstance(value, str) and os.path.isfile(value):
        return "sha256:" + sha256(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)


def _fields(config: Any) -> dict[str, Any]:
    if OmegaConf.is_config(config):
        container: Any = OmegaConf.to_container(config, resolve=True)
        return dict(container)
    return dict(vars(config))


def _task_fields(task: Any) -> dict[str, Any]:
    """A task's settings. Older tasks have no configuration: theirs are the command line's, of which
    those are taken that the task has added."""
    fields = _fields(task)
    if OmegaConf.is_config(task):
        return fields
    parser = argparse.ArgumentParser()
    TASK_REGISTRY[fields["task"]].add_args(parser)
    own = {action.dest for action in parser._actions}
    return {name: value for name, value in fields.items() if name in {*own, "task"}}


def teacher_paths(config: Any) -> list[str]:
    """The checkpoints of ``--path a.pt:b.pt``."""
    if not config.common_eval.path:
        raise UsageError("--path", "name the teacher's checkpoint, or several joined by ':'")
    paths = list(utils.split_paths(config.common_eval.path))
    for path in paths:
        if not os.path.isfile(path):
            raise UsageError("--path", f"{path} does not exist", "name a trained checkpoint")
    return paths


def decoding_settings(config: Any, corpus: Corpus, **own: Any) -> dict[str, Any]:
    """Everything that the teacher's output depends on, flat, by the flag or file that sets it.

    Files (teacher, drafter, corpus) are recorded by their contents, so moving them changes nothing.

    Args:
        own: this command's own settings, by flag name without dashes.
    """
    task = _task_fields(config.task)
    named: dict[str, Any] = dict(task, **_fields(config.generation))
    for name in list(named):
        if name == "data" or name.startswith(("eval_", "print_", "trace_")):  # change no output
            del named[name]
    named.update(
        max_tokens=config.dataset.max_tokens,
        batch_size=config.dataset.batch_size,
        required_batch_size_multiple=config.dataset.required_batch_size_multiple,
        gen_subset=config.dataset.gen_subset,
        seed=config.common.seed,
        fp16=config.common.fp16,
        bf16=config.common.bf16,
        model_overrides=config.common_eval.model_overrides,
        source_lang=corpus.source,
        target_lang=corpus.target,
        **own,
    )
    named.pop("_name", None)
    named["task"] = task.get("_name", task.get("task"))
    settings = {"--" + name.replace("_", "-"): _plain(value) for name, value in named.items()}
    settings["--path"] = [_plain(path) for path in teacher_paths(config)]
    settings.update({"DATA/" + name: value for name, value in corpus.fingerprint().items()})
    return settings


def provenance(
    arguments: Sequence[str], device: str, program: str = "specdec-distill"
) -> dict[str, Any]:
    """Who made it: command, time (UTC), versions, commit, platform, device, threads."""
    return {
        "command": command_line([program, *arguments]),
        **origin(PACKAGES),
        "platform": sys.platform,
        "device": device,
        "threads": torch.get_num_threads(),
    }
