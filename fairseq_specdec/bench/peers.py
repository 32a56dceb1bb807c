"""Other engines on the same checkpoint (the extra ``peers``), each in a process of its own."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .peer_process import PeerSystem, Worker
from .systems import Plan
from .timing import System
from .workload import BenchError, Workload

FLAG = "--peers"
THREADS = "default: torch's choice; with --peers 1, as waking a second one can cost peers the most"
# Module of this package by the engine's Python package.
ENGINES = {"ctranslate2": "peer_ctranslate2", "transformers": "peer_transformers"}


def _module(engine: str) -> Any:
    return importlib.import_module(f"fairseq_specdec.bench.{ENGINES[engine]}")


def engines(chosen: Optional[str]) -> List[str]:
    """The engines to measure.

    Args:
        chosen: names joined by commas; None for all that are installed.

    Raises:
        BenchError: one is unknown or not installed, or none is.
    """
    installed = [name for name in ENGINES if importlib.util.find_spec(name) is not None]
    names = installed if chosen is None else chosen.split(",")
    if not set(names) <= set(ENGINES) or len(names) > len(set(names)):
        raise BenchError(f"--peer-engines {chosen}: choose different ones of {', '.join(ENGINES)}")
    for name in names:
        if name not in installed:
            raise BenchError(
                f"--peer-engines {chosen}: {name} is not installed; install it with pip install "
                "fairseq_specdec[peers], or leave it out"
            )
    if not names:
        raise BenchError(
            f"{FLAG}: needs {' or '.join(ENGINES)}; install them with pip install "
            "fairseq_specdec[peers], or leave the flag out"
        )
    return names


def require(plan: Plan, chosen: Optional[str]) -> List[str]:
    """Refuse what other engines cannot be measured with; no model is loaded.

    Args:
        plan: stock decoding of ``--path``.
        chosen: see ``engines``.

    Returns:
        the engines to measure.

    Raises:
        BenchError: none is installed, or a flag has no counterpart there.
    """
    names = engines(chosen)
    titles = " and ".join(_module(name).TITLE for name in names)
    if len(plan.paths) > 1:
        raise BenchError(f"{FLAG}: {titles} decode no ensembles; give one checkpoint to --path")
    unused = {"prefix_size": 0, "unkpen": 0, "temperature": 1.0, "unnormalized": False}
    for name, value in unused.items():
        if plan.generation.get(name, value) != value:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"{FLAG}: {flag} has no counterpart in {titles}; leave one out")
    return names


def asked(args: Any, plan: Plan) -> List[str]:
    """What ``--peers`` and ``--peer-engines`` ask for; arguments and errors as of ``require``."""
    if args.peers:
        return require(plan, args.peer_engines)
    if args.peer_engines is not None:
        raise BenchError(f"--peer-engines {args.peer_engines}: belongs to {FLAG}; give both")
    return []


def set_threads(args: Any) -> None:
    """Set torch's threads to ``--threads``, or to one where other engines are measured; they get as
    many as torch has, within a sentence."""
    count = args.threads or (1 if args.peers else None)
    if count is not None:
        torch.set_num_threads(count)


def _converted(engine: str, workload: Any, path: str) -> Any:
    """A temporary folder with the checkpoint as the engine takes it."""
    module = _module(engine)
    folder = tempfile.TemporaryDirectory(prefix="specdec-bench-")
    try:
        module.convert(workload, path, folder.name)
    except Exception as error:  # the engine's own errors, and torch's or fairseq's under it
        folder.cleanup()
        others = ",".join(name for name in ENGINES if name != engine)
        raise BenchError(
            f"{FLAG}: {module.TITLE} cannot represent {path} ({type(error).__name__}: "
            f"{str(error)[:300]}); leave the flag out, or choose --peer-engines {others}"
        ) from error
    return folder


Maker = Callable[[Workload], System]


def makers(plan: Plan, fp16: bool, names: Sequence[str]) -> List[Tuple[Plan, Maker]]:
    """A (plan, function) for every row, as ``Session.makers`` gives them.

    Args:
        plan: stock decoding of ``--path``.
        fp16: measure the half-precision formats instead.
        names: from ``require``.
    """
    # One process for all rows of an engine's format and a workload.
    workers: Dict[Tuple[str, str, int], Worker] = {}

    def of(engine: str, kind: str, name: str, row: Dict[str, Any]) -> Maker:
        def make(workload: Workload) -> System:
            key = (engine, kind, id(workload))
            if key not in workers:
                folder = _converted(engine, workload, plan.paths[0])
                settings = {
                    "folder": folder.name,
                    "kind": kind,
                    "cuda": workload.cuda,
                    "threads": torch.get_num_threads(),
                    "generation": plan.generation,
                }
                title = f"{_module(engine).TITLE} {kind}"
                workers[key] = Worker(ENGINES[engine], title, settings, folder)
            return PeerSystem(name, workers[key], row, workload.task, plan.generation)

        return make

    return [
        (plan._replace(name=name, base=name), of(engine, kind, name, row))
        for engine in names
        for kind in _module(engine).kinds(fp16)
        for name, row in _module(engine).rows(kind).items()
    ]


def versions(systems: Sequence[System]) -> Dict[str, str]:
    """Releases of the engines among the systems."""
    found = [system.worker for system in systems if isinstance(system, PeerSystem)]
    return {worker.title.split()[0].lower(): worker.version for worker in found}


def close(systems: Sequence[System]) -> None:
    """End the engines' processes."""
    for system in systems:
        if isinstance(system, PeerSystem):
            system.worker.close()
