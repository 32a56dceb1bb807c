"""A task of this project that fairseq's hub is asked for."""

from argparse import Namespace
from typing import Any

from fairseq import checkpoint_utils
from fairseq.dataclass import utils
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from .patch import fixes, wrap_once


@fixes("fairseq.checkpoint_utils.load_model_ensemble_and_task")
def take_tasks_of_the_hub(
    original: Any, filenames: Any, arg_overrides: dict[str, Any] | None = None, *rest: Any,
    **more: Any,
) -> Any:  # fmt: skip
    """Let ``from_pretrained(..., task=...)`` choose one of this project's tasks, by its name or by
    a dictionary with ``_name`` and flags.

    Fault: fairseq's loader takes a dictionary where the checkpoint's own task has a dataclass, and
    a string where it has none (or the checkpoint is of the older layout). The other form fails, or
    is ignored, and stock beam search decodes without a warning. Versions: all.

    Here it becomes a name, and the flags beside the others.
    """
    asked = (arg_overrides or {}).get("task")
    if isinstance(asked, dict) and _ours(asked.get("_name")):
        flags = {name: value for name, value in asked.items() if name != "_name"}
        arg_overrides = {**(arg_overrides or {}), **flags, "task": asked["_name"]}
    return original(filenames, arg_overrides, *rest, **more)


@fixes()
def _overwrite_tasks() -> None:
    wrap_once(utils, "overwrite_args_by_name", _overwrite)
    checkpoint_utils.overwrite_args_by_name = utils.overwrite_args_by_name


def _overwrite(original: Any, cfg: Any, overrides: dict[str, Any]) -> None:
    """A name becomes a dictionary where the checkpoint's task has a dataclass."""
    name = overrides.get("task")
    if _ours(name) and "task" in cfg and not isinstance(cfg["task"], Namespace):
        config = TASK_DATACLASS_REGISTRY.get(name)
        known = () if config is None else config.__dataclass_fields__
        flags = {each: value for each, value in overrides.items() if each in known}
        overrides = {**overrides, "task": {**flags, "_name": name}}
    original(cfg, overrides)


def _ours(name: Any) -> bool:
    """Whether a task decodes with this project."""
    task = TASK_REGISTRY.get(name) if isinstance(name, str) else None
    return getattr(task, "decodes_speculatively", False)
