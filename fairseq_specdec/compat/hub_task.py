"""A task that fairseq's hub is given by its name."""

from __future__ import annotations

import logging
from typing import Any

from .patch import wrap_once

logger = logging.getLogger(__name__)

PACKAGE = __name__.split(".")[0]


def warn_of_tasks_named_by_strings() -> None:
    """Warn where ``from_pretrained(..., task="translation_specdec")`` decodes with another task.

    Fault: fairseq's loader replaces the task of a checkpoint by a dictionary's only. It ignores a
    string, and stock beam search decodes without a warning. Versions: all.
    """
    from fairseq import checkpoint_utils

    fix = "warn_of_tasks_named_by_strings"
    wrap_once(checkpoint_utils, "load_model_ensemble_and_task", fix, _load)


def _load(original: Any, filenames: Any, arg_overrides: Any = None, *rest: Any, **more: Any) -> Any:
    from fairseq.tasks import TASK_REGISTRY

    loaded = original(filenames, arg_overrides, *rest, **more)
    name = (arg_overrides or {}).get("task")
    asked = TASK_REGISTRY.get(name) if isinstance(name, str) else None
    if asked is not None and asked.__module__.startswith(PACKAGE + "."):
        if not isinstance(loaded[2], asked):
            logger.warning(
                "task=%r: fairseq ignores a string here and decodes without speculation; pass "
                'task={"_name": %r} instead, with the decoding flags beside _name',
                name,
                name,
            )
    return loaded
