"""A process that decodes with another engine; ``peer_process`` starts it.

It reads lines of JSON and answers each with one. The first names the engine (a module of this
package) and what it is to load; every other is a batch to decode with one of its rows.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import IO, Any, Dict

from .resident import peak_resident
from .rest import until_at_rest


def _load(order: Dict[str, Any]) -> Any:
    """The engine, and what it says of itself."""
    module = importlib.import_module(f"fairseq_specdec.bench.{order['engine']}")
    version = module.version()  # imports the engine
    before = peak_resident()
    engine = module.Engine(**order["settings"])
    return engine, {"version": version, "before": before}


def _decode(engine: Any, order: Dict[str, Any]) -> Dict[str, Any]:
    """Decode a batch; what leads from numbers to the engine's own input and back is not timed."""
    batch = engine.prepare(order["rows"])
    engine.synchronise()
    started, used = time.perf_counter(), time.process_time()
    found = engine.decode(batch, order["limit"], **order["row"])
    engine.synchronise()
    answer = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    answer.update({"tokens": engine.tokens(found), "peak": engine.peak()})
    until_at_rest()  # whoever decodes next shall not pay for threads that spin here
    return answer


def serve(orders: IO[str], answers: IO[str]) -> None:
    """Answer until there is nothing more to read."""
    engine: Any = None
    for line in orders:
        order = json.loads(line)
        try:
            if engine is None:
                engine, answer = _load(order)
            else:
                answer = _decode(engine, order)
        except Exception as error:  # whatever the engine raises is told to who asked
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(answers: int) -> None:
    """Read standard input, and answer on a file descriptor."""
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        serve(sys.stdin, stream)
