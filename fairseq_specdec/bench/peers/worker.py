"""The far side of ``peers``: converts for an engine and decodes with it, in a ``child`` process."""

import importlib
import time
from typing import Any

from ..usage import peak_resident, until_at_rest

_MODELS: list[Any] = []  # the engine's, of this process


def _engine(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")


def convert(engine: str, **arguments: str) -> None:
    """Write a checkpoint as the engine reads it."""
    _engine(engine).convert(**arguments)


def load(
    engine: str, folder: str, kind: str, cuda: bool, threads: int, generation: dict[str, Any]
) -> dict[str, Any]:
    """Load a model. Returns ``version`` of the engine, and ``before``, bytes used before any model
    was loaded."""
    module = _engine(engine)
    ready = {"version": module.version(), "before": peak_resident()}
    _MODELS[:] = [module.Model(folder, kind, cuda, threads, generation), cuda]
    return ready


def decode(rows: list[list[int]], limit: int, beam: int) -> dict[str, Any]:
    """Decode a batch, ``limit`` tokens at most; what makes words of numbers and back is not timed.

    No engine reports a GPU's memory.
    """
    model, cuda = _MODELS
    inputs = model.inputs(rows)
    started, used = time.perf_counter(), time.process_time()
    outputs = model.run(inputs, limit, beam)
    answer = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    answer.update(tokens=model.tokens(outputs), peak=None if cuda else peak_resident())
    until_at_rest()  # whoever decodes next shall not pay for threads that spin here
    return answer
