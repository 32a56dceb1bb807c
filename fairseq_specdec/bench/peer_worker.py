"""The far side of a peer: loads another engine and decodes with it, in a ``child`` process."""

from __future__ import annotations

import importlib
import time
from typing import Any, Dict, List

from .usage import peak_resident, until_at_rest

_LOADED: List[Any] = []  # the engine of this process


def load(engine: str, settings: Dict[str, Any]) -> Dict[str, Any]:
    """Load a model with the ``Engine`` of a module.

    Returns:
        ``version`` of the engine, and ``before``, bytes used before any model was loaded.
    """
    module = importlib.import_module(engine)
    version = module.version()  # imports the engine
    before = peak_resident()
    _LOADED[:] = [module.Engine(**settings)]
    return {"version": version, "before": before}


def decode(rows: List[List[int]], limit: int, row: Dict[str, Any]) -> Dict[str, Any]:
    """Decode a batch; conversion between numbers and the engine's own input is not timed."""
    (engine,) = _LOADED
    batch = engine.prepare(rows)
    engine.synchronise()
    started, used = time.perf_counter(), time.process_time()
    found = engine.decode(batch, limit, **row)
    engine.synchronise()
    answer = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    answer.update({"tokens": engine.tokens(found), "peak": engine.peak()})
    until_at_rest()  # whoever decodes next shall not pay for threads that spin here
    return answer
