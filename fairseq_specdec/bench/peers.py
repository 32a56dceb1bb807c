"""CTranslate2 on the same checkpoint (the extra ``peers``), a process for each number format."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils

from .child import Child, call_once
from .systems import Plan, with_beam
from .timing import System
from .usage import until_at_rest
from .workload import BenchError

TITLE = "CTranslate2"
NO_COUNTERPART = {"prefix_size": 0, "unkpen": 0, "temperature": 1.0, "unnormalized": False}
WORKER = "fairseq_specdec.bench.peer_worker"

Maker = Callable[[Any], System]  # of a Workload


def check(plan: Plan) -> None:
    """Refuse ``--peers``, before any model is loaded, where the engine cannot do the same.

    Args:
        plan: stock decoding of ``--path``.

    Raises:
        BenchError: it is not installed, or a flag has no counterpart there.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise BenchError(
            "--peers: needs ctranslate2; install it with pip install fairseq_specdec[peers], or "
            "leave the flag out"
        )
    if len(plan.paths) > 1:
        raise BenchError(f"--peers: {TITLE} decodes no ensembles; give one checkpoint to --path")
    for name, value in NO_COUNTERPART.items():
        if plan.generation.get(name, value) != value:
            flag = "--" + name.replace("_", "-")
            raise BenchError(f"--peers: {flag} has no counterpart in {TITLE}; leave one out")


class Worker(NamedTuple):
    """A process with the engine and a model.

    Attributes:
        child: the process.
        version: of the engine.
        before: bytes that the process had used before the model was loaded.
        folder: temporary, with the converted model.
    """

    child: Child
    version: str
    before: int
    folder: Any

    def close(self) -> None:
        """End the process and remove its model."""
        self.child.close()
        self.folder.cleanup()


def _legible(path: str, folder: str) -> str:
    """A copy of a checkpoint's weights and settings, as fairseq 0.9 laid them out.

    The converter asks for the name of the task, and for the settings as a Namespace; neither is in
    every checkpoint.
    """
    state = checkpoint_utils.load_checkpoint_to_cpu(path)
    settings = state.get("args") or state["cfg"]["model"]
    given = dict(vars(settings) if isinstance(settings, argparse.Namespace) else settings)
    given.update(task="translation", arch=given.get("arch") or given["_name"])
    copy = os.path.join(folder, "checkpoint.pt")
    torch.save({"args": argparse.Namespace(**given), "model": state["model"]}, copy)
    return copy


def _converted(workload: Any, path: str) -> Any:
    """A temporary folder with the checkpoint, converted, and the dictionaries."""
    folder = tempfile.TemporaryDirectory(prefix="specdec-bench-")
    cfg = workload.task.cfg
    try:
        copy = _legible(path, folder.name)
        call_once(
            "the converter",
            f"{WORKER}:convert",
            checkpoint=copy,
            data=cfg.data.split(os.pathsep)[0],
            source=cfg.source_lang,
            target=cfg.target_lang,
            folder=os.path.join(folder.name, "model"),
        )
        os.remove(copy)
        workload.task.source_dictionary.save(os.path.join(folder.name, "source.txt"))
        workload.task.target_dictionary.save(os.path.join(folder.name, "target.txt"))
    except Exception as error:  # the engine's own errors, and torch's or fairseq's under it
        folder.cleanup()
        raise BenchError(
            f"--peers: {TITLE} cannot represent {path} ({type(error).__name__}: "
            f"{str(error)[:300]}); leave the flag out"
        ) from error
    return folder


class PeerSystem(System):
    """A row that a worker decodes.

    Args:
        name: row of the table.
        worker: decodes.
        beam: its width.
        pad: token id.
        generation: fairseq's generation flags by field name.

    Attributes:
        peak: bytes that the process had used at most when it last answered; None if unknown.
    """

    def __init__(
        self, name: str, worker: Worker, beam: int, pad: int, generation: Dict[str, Any]
    ) -> None:
        super().__init__(name, None, ())
        self.worker = worker
        self.beam = beam
        self.pad = pad
        self.generation = generation
        self.peak: Optional[int] = None

    def timed(self, sample: Dict[str, Any]) -> Tuple[List[Any], float, float]:
        """One hypothesis a sentence, ``tokens`` only, and the two times as the worker took them."""
        tokens = sample["net_input"]["src_tokens"]
        rows = [[t for t in row if t != self.pad] for row in tokens.tolist()]
        flags = self.generation
        limit = int(flags.get("max_len_a", 0) * tokens.size(1) + flags.get("max_len_b", 200))
        until_at_rest()  # the threads of what was decoded here before
        answer = self.worker.child.call(f"{WORKER}:decode", rows=rows, limit=limit, beam=self.beam)
        self.peak = answer["peak"]
        found = [[{"tokens": torch.tensor(out)}] for out in answer["tokens"]]
        return found, answer["seconds"], answer["cpu"]


def makers(plan: Plan, fp16: bool, beams: Sequence[int]) -> List[Tuple[Plan, Maker]]:
    """A (plan, function) for every row, as ``Session.makers`` gives them.

    Args:
        plan: stock decoding of ``--path``.
        fp16: measure the half-precision formats instead.
        beams: widths.
    """
    workers: Dict[Tuple[str, int], Worker] = {}  # one for all rows of a format and a workload

    def make(kind: str, name: str, beam: int, workload: Any) -> System:
        key = (kind, id(workload))
        if key not in workers:
            folder = _converted(workload, plan.paths[0])
            child = Child(f"--peers: {TITLE} {kind}")
            ready = child.call(
                f"{WORKER}:load",
                folder=folder.name,
                kind=kind,
                cuda=workload.cuda,
                threads=torch.get_num_threads(),
                generation=plan.generation,
            )
            workers[key] = Worker(child, ready["version"], ready["before"], folder)
        pad = workload.task.source_dictionary.pad()
        return PeerSystem(name, workers[key], beam, pad, plan.generation)

    found: List[Tuple[Plan, Maker]] = []
    for kind in ("float16", "int8_float16") if fp16 else ("float32", "int8"):
        for beam in beams:
            name = f"{TITLE} {kind} beam {beam}"
            row = with_beam(plan._replace(name=name, base=name), beam)
            found.append((row, functools.partial(make, kind, name, beam)))
    return found


def versions(systems: Sequence[System]) -> Dict[str, str]:
    """Release of the engine, if it is among the systems."""
    found = [system.worker.version for system in systems if isinstance(system, PeerSystem)]
    return {"ctranslate2": found[0]} if found else {}


def close(systems: Sequence[System]) -> None:
    """End the engine's processes."""
    for system in systems:
        if isinstance(system, PeerSystem):
            system.worker.close()
