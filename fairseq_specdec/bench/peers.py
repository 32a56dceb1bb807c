"""CTranslate2 on the same checkpoint (the extra ``peers``), a process for each number format."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils

from .child import Child, call_once
from .flags import flag
from .systems import Plan, with_beam
from .timing import System
from .usage import until_at_rest
from .workload import BenchError, refuse

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
    flags, missing = plan.generation, importlib.util.find_spec("ctranslate2") is None
    other = (name for name, value in NO_COUNTERPART.items() if flags.get(name, value) != value)
    refuse({
        "--peers: needs ctranslate2; install it with pip install fairseq_specdec[peers], or leave "
        "the flag out": missing,
        f"--peers: {TITLE} decodes no ensembles; give one checkpoint to --path":
            len(plan.paths) > 1,
        **{f"--peers: {flag(n)} has no counterpart in {TITLE}; leave one out": True for n in other},
    })  # fmt: skip


def legible(path: str, folder: str) -> str:
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


def _start(kind: str, plan: Plan, workload: Any) -> Tuple[Child, Dict[str, Any]]:
    """A process that has loaded the checkpoint, converted, and what it says of itself."""
    path, cfg = plan.paths[0], workload.task.cfg
    with tempfile.TemporaryDirectory(prefix="specdec-bench-") as folder:
        try:
            call_once(
                "the converter",
                f"{WORKER}:convert",
                checkpoint=legible(path, folder),
                data=cfg.data.split(os.pathsep)[0],
                source=cfg.source_lang,
                target=cfg.target_lang,
                folder=os.path.join(folder, "model"),
            )
        except Exception as error:  # the engine's own errors, and torch's or fairseq's under it
            raise BenchError(
                f"--peers: {TITLE} cannot represent {path} ({type(error).__name__}: "
                f"{str(error)[:300]}); leave the flag out"
            ) from error
        for side in ("source", "target"):
            getattr(workload.task, f"{side}_dictionary").save(os.path.join(folder, f"{side}.txt"))
        child = Child(f"--peers: {TITLE} {kind}")
        ready = child.call(
            f"{WORKER}:load",
            folder=folder,
            kind=kind,
            cuda=workload.cuda,
            threads=torch.get_num_threads(),
            generation=plan.generation,
        )
    return child, ready


class PeerSystem(System):
    """A row that a worker decodes.

    Args:
        plan: of the row.
        child: the process that decodes, with the engine and its model.
        ready: the engine's ``version``, and ``before``, bytes that the process had used before the
            model was loaded.
        pad: token id.

    Attributes:
        peak: bytes that the process had used at most when it last answered; None if unknown.
    """

    def __init__(self, plan: Plan, child: Child, ready: Dict[str, Any], pad: int) -> None:
        super().__init__(plan.name, None, ())
        self.flags, self.child, self.ready, self.pad = plan.generation, child, ready, pad
        self.peak: Optional[int] = None

    def timed(self, sample: Dict[str, Any]) -> Tuple[List[Any], float, float]:
        """One hypothesis a sentence, ``tokens`` only, and the two times as the worker took them."""
        tokens = sample["net_input"]["src_tokens"]
        rows = [[t for t in row if t != self.pad] for row in tokens.tolist()]
        flags = self.flags
        limit = int(flags.get("max_len_a", 0) * tokens.size(1) + flags.get("max_len_b", 200))
        until_at_rest()  # the threads of what was decoded here before
        answer = self.child.call(f"{WORKER}:decode", rows=rows, limit=limit, beam=flags["beam"])
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
    # One process for all rows of a format and a workload.
    start = functools.lru_cache(maxsize=None)(functools.partial(_start, plan=plan))

    def make(kind: str, row: Plan, workload: Any) -> System:
        return PeerSystem(
            row, *start(kind, workload=workload), workload.task.source_dictionary.pad()
        )

    found: List[Tuple[Plan, Maker]] = []
    for kind in ("float16", "int8_float16") if fp16 else ("float32", "int8"):
        for beam in beams:
            name = f"{TITLE} {kind} beam {beam}"
            row = with_beam(plan._replace(name=name, base=name), beam)
            found.append((row, functools.partial(make, kind, row)))
    return found


def versions(systems: Sequence[System]) -> Dict[str, str]:
    """Release of the engine, if it is among the systems."""
    found = [system.ready["version"] for system in systems if isinstance(system, PeerSystem)]
    return {"ctranslate2": found[0]} if found else {}


def close(systems: Sequence[System]) -> None:
    """End the engine's processes."""
    for system in systems:
        if isinstance(system, PeerSystem):
            system.child.close()
