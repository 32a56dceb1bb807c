"""Other engines on the same checkpoint (the extra ``peers``), each in a process of its own."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .child import Child
from .systems import Plan
from .timing import System
from .usage import until_at_rest
from .workload import BenchError

# Modules with TITLE, kinds, rows, version, convert and Engine, by the engine's Python package.
ENGINES = {name: f"fairseq_specdec.bench.peer_{name}" for name in ("ctranslate2", "transformers")}
INSTALL = "with pip install fairseq_specdec[peers]"
NO_COUNTERPART = {"prefix_size": 0, "unkpen": 0, "temperature": 1.0, "unnormalized": False}
WORKER = "fairseq_specdec.bench.peer_worker"

Maker = Callable[[Any], System]  # of a Workload, or of what has its task, models and cuda


def _module(engine: str) -> Any:
    return importlib.import_module(ENGINES[engine])


def _engines(chosen: Optional[str]) -> List[str]:
    """The engines named, joined by commas, or all that are installed."""
    installed = [name for name in ENGINES if importlib.util.find_spec(name) is not None]
    names = installed if chosen is None else chosen.split(",")
    if not set(names) <= set(ENGINES) or len(names) > len(set(names)):
        raise BenchError(f"--peer-engines {chosen}: choose different ones of {', '.join(ENGINES)}")
    for name in names:
        if name not in installed:
            raise BenchError(
                f"--peer-engines {chosen}: {name} is not installed; install it {INSTALL}, or leave "
                "it out"
            )
    if not names:
        raise BenchError(
            f"--peers: needs {' or '.join(ENGINES)}; install them {INSTALL}, or leave the flag out"
        )
    return names


def asked(args: Any, plan: Plan) -> List[str]:
    """The engines that ``--peers`` and ``--peer-engines`` ask for; no model is loaded.

    Args:
        args: the command line.
        plan: stock decoding of ``--path``.

    Raises:
        BenchError: none is installed, or a flag has no counterpart there.
    """
    if not args.peers:
        if args.peer_engines is not None:
            raise BenchError(f"--peer-engines {args.peer_engines}: belongs to --peers; give both")
        return []
    names = _engines(args.peer_engines)
    titles = " and ".join(_module(name).TITLE for name in names)
    if len(plan.paths) > 1:
        raise BenchError(f"--peers: {titles} decode no ensembles; give one checkpoint to --path")
    for name, value in NO_COUNTERPART.items():
        if plan.generation.get(name, value) != value:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"--peers: {flag} has no counterpart in {titles}; leave one out")
    return names


class Worker(NamedTuple):
    """A process with an engine and a model.

    Attributes:
        child: the process.
        engine: name of its Python package.
        version: of that package.
        before: bytes that the process had used before the model was loaded.
        folder: temporary, with the converted model.
    """

    child: Child
    engine: str
    version: str
    before: int
    folder: Any

    def close(self) -> None:
        """End the process and remove its model."""
        self.child.close()
        self.folder.cleanup()


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
            f"--peers: {module.TITLE} cannot represent {path} ({type(error).__name__}: "
            f"{str(error)[:300]}); leave the flag out, or choose --peer-engines {others}"
        ) from error
    return folder


def start(engine: str, kind: str, settings: Dict[str, Any], folder: Any) -> Worker:
    """Start a process that loads a converted model in a number format.

    Raises:
        BenchError: the engine cannot load it.
    """
    child = Child(f"--peers: {_module(engine).TITLE} {kind}")
    ready = child.call(f"{WORKER}:load", engine=ENGINES[engine], settings=settings)
    return Worker(child, engine, ready["version"], ready["before"], folder)


class PeerSystem(System):
    """A row that a worker decodes.

    Args:
        name: row of the table.
        worker: decodes.
        row: the engine's settings for this row.
        task: holds the dictionaries.
        generation: fairseq's generation flags by field name.

    Attributes:
        peak: bytes that the process had used at most when it last answered; None if unknown.
    """

    def __init__(
        self, name: str, worker: Worker, row: Dict[str, Any], task: Any, generation: Dict[str, Any]
    ) -> None:
        super().__init__(name, None, ())
        self.worker = worker
        self.row = row
        self.pad = task.source_dictionary.pad()
        self.generation = generation
        self.peak: Optional[int] = None

    def timed(self, sample: Dict[str, Any]) -> Tuple[List[Any], float, float]:
        """One hypothesis a sentence, ``tokens`` only, and the two times as the worker took them."""
        tokens = sample["net_input"]["src_tokens"]
        rows = [[t for t in row if t != self.pad] for row in tokens.tolist()]
        flags = self.generation
        limit = int(flags.get("max_len_a", 0) * tokens.size(1) + flags.get("max_len_b", 200))
        until_at_rest()  # the threads of what was decoded here before
        answer = self.worker.child.call(f"{WORKER}:decode", rows=rows, limit=limit, row=self.row)
        self.peak = answer["peak"]
        found = [[{"tokens": torch.tensor(out)}] for out in answer["tokens"]]
        return found, answer["seconds"], answer["cpu"]


def makers(plan: Plan, fp16: bool, names: Sequence[str]) -> List[Tuple[Plan, Maker]]:
    """A (plan, function) for every row, as ``Session.makers`` gives them.

    Args:
        plan: stock decoding of ``--path``.
        fp16: measure the half-precision formats instead.
        names: the engines, from ``asked``.
    """
    # One process for all rows of an engine's format and a workload.
    workers: Dict[Tuple[str, str, int], Worker] = {}

    def make(engine: str, kind: str, name: str, row: Dict[str, Any], workload: Any) -> System:
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
            workers[key] = start(engine, kind, settings, folder)
        return PeerSystem(name, workers[key], row, workload.task, plan.generation)

    return [
        (plan._replace(name=name, base=name), functools.partial(make, engine, kind, name, row))
        for engine in names
        for kind in _module(engine).kinds(fp16)
        for name, row in _module(engine).rows(kind).items()
    ]


def versions(systems: Sequence[System]) -> Dict[str, str]:
    """Releases of the engines among the systems."""
    found = [system.worker for system in systems if isinstance(system, PeerSystem)]
    return {worker.engine: worker.version for worker in found}


def close(systems: Sequence[System]) -> None:
    """End the engines' processes."""
    for system in systems:
        if isinstance(system, PeerSystem):
            system.worker.close()
