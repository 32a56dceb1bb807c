"""``--task NAME_specdec`` for any task NAME."""

import dataclasses
from typing import Any

from fairseq.tasks import TASK_REGISTRY, register_task

from fairseq_specdec.config import SpecDecConfig
from fairseq_specdec.errors import UsageError

from .mixin import SpecDecMixin

SUFFIX = "_specdec"


def register_specdec(name: str, task: type | None = None) -> Any:
    """Register ``NAME_specdec``: a task that does what the task ``NAME`` does, decoded with this
    project's strategies, and that has their flags beside its own.

    Args:
        name: of a registered task.
        task: its class, if it is not the one that is registered.

    Returns:
        The new task's class.

    Raises:
        ValueError: there is no such task.
    """
    base: Any = task or TASK_REGISTRY.get(name)
    if base is None:
        raise UsageError(f"register_specdec({name!r})", "no task of that name is registered")
    config: Any = getattr(base, "__dataclass", None)
    if config is not None:
        config = dataclasses.make_dataclass(
            f"SpecDec{config.__name__}", [], bases=(SpecDecConfig, config)
        )
    inside = {
        "__doc__": f"``{name}``, decoded with this project's generator.",
        "__module__": __name__,
    }
    made = type(f"SpecDec{base.__name__}", (SpecDecMixin, base), inside)
    return register_task(name + SUFFIX, dataclass=config)(made)
