"""Overrides that fit a hydra configuration to this machine; batches stay as large as the paper's.

A batch holds GPUs x max-tokens x update-freq tokens (or GPUs x batch-size x update-freq sentences).
The configuration has the paper's; this recomputes update-freq, and logs it.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from recipe import LIB, StepError
from recipe_file import yaml  # says what is missing

# What PROFILE=smoke shrinks: shapes by the end of their name, and drafters, whose shape is a name.
SMOKE_SHAPE = {
    "encoder_layers": 1,
    "decoder_layers": 2,  # an early exit needs two
    "embed_dim": 32,
    "input_dim": 32,
    "output_dim": 32,
    "ffn_embed_dim": 64,
    "attention_heads": 2,
}
# Overrides that set the size of a batch begin with one of these.
OF_BATCH = ("optimization.update_freq=", "dataset.max_tokens=", "dataset.batch_size=")
Log = Callable[[str], None]
Config = dict[str, dict[str, Any]]
CONFIGS = LIB.parents[1] / "configs" / "papers.yaml"
REPLACED = ("criterion", "optimizer", "lr_scheduler")
DRAFTERS = ("nar_drafter_", "spec_drafter_")
SMOKE_DRAFTER = "spec_drafter_tiny"


def smoke(config: Config, updates: int) -> list[str]:
    """Overrides that make any of the configurations train in seconds."""
    changes = [f"optimization.max_update={updates}", "checkpoint.save_interval_updates=1"]
    changes += ["dataset.num_workers=0", "dataset.data_buffer_size=0", "common.log_interval=1"]
    if "warmup_updates" in config["lr_scheduler"]:
        changes.append("lr_scheduler.warmup_updates=2")
    model = config["model"]
    if str(model["_name"]).startswith(DRAFTERS):
        changes.append(f"model._name={SMOKE_DRAFTER}")
        # A shape of its own would not be the tiny one's.
        changes += [
            f"~model.{name}" for name in model if name.endswith(("embed_dim", "coder_layers"))
        ]
        return changes
    for name in model:
        ends = [end for end in SMOKE_SHAPE if name.endswith(end)]
        if ends:
            changes.append(f"model.{name}={SMOKE_SHAPE[max(ends, key=len)]}")
    return changes


def merge(config: Config, own: Config) -> Config:
    """A configuration with further settings; see the head of configs/papers.yaml."""
    merged = dict(config)
    for room, settings in own.items():
        before = config.get(room, {})
        if room in REPLACED and settings.get("_name", before.get("_name")) != before.get("_name"):
            before = {}
        merged[room] = {**before, **settings}
    return merged


@functools.cache
def read(name: str) -> Config:
    """A configuration of configs/papers.yaml."""
    declared = yaml.safe_load(CONFIGS.read_text(encoding="utf-8"))
    listed = {**declared["parts"], **declared["configs"]}

    def whole(name: str) -> Config:
        own = dict(listed[name])
        parents = own.pop("from", [])
        merged: Config = {}
        for parent in [parents] if isinstance(parents, str) else parents:
            merged = merge(merged, whole(parent))
        return merge(merged, own)

    if name not in declared["configs"]:
        raise StepError(f"there is no configuration {name}; see {CONFIGS}")
    return whole(name)


def text(config: Config) -> str:
    """The YAML of a whole configuration."""
    return str(yaml.safe_dump(config, sort_keys=False))


def batch_overrides(config: Config, gpus: int, each: int | None, log: Log) -> list[str]:
    """Overrides for the batch on so many GPUs that comes nearest to the paper's; logs it.

    Args:
        each: tokens that fit into one of them; default: as in the paper, less where so many GPUs
            would make the batch larger than the paper's.
    """
    name = "max_tokens" if "max_tokens" in config["dataset"] else "batch_size"
    unit = "tokens" if name == "max_tokens" else "sentences"
    paper = (
        config["distributed_training"]["distributed_world_size"],
        config["dataset"][name],
        config["optimization"]["update_freq"][0],
    )
    total = math.prod(paper)
    if not each or unit == "sentences":
        each = min(paper[1], max(1, total // gpus))
    passes = max(1, round(total / (gpus * each)))
    log(
        f"{gpus} GPUs x {each} {unit} x update-freq {passes} = {gpus * each * passes} {unit} a "
        f"batch (paper: {' x '.join(map(str, paper))} = {total})"
    )
    return [f"dataset.{name}={each}", f"optimization.update_freq=[{passes}]"]


def overrides(
    config: Config,
    gpus: int,
    each: int | None,
    updates: int | None,
    log: Log,
    own: Sequence[str] = (),
) -> list[str]:
    """Overrides that fit a configuration to this machine.

    Args:
        each: tokens that fit into one of them (default: the configuration's).
        updates: of a tiny model that shows that it runs (default: the published model).
        log: prints the size of a batch.
        own: overrides that come first; what they say of the batch is the paper's.
    """
    for word in own:
        if word.startswith(OF_BATCH):
            (room, name), value = word.split("=")[0].split("."), word.partition("=")[2]
            config = merge(config, {room: {name: yaml.safe_load(value)}})
    changes = [f"distributed_training.distributed_world_size={gpus}"]
    if updates is None:
        return changes + batch_overrides(config, gpus, each, log)
    changes.append("optimization.update_freq=[1]")
    if "max_tokens" in config["dataset"]:
        changes.append(f"dataset.max_tokens={each or 1000}")
    return changes + smoke(config, updates)
