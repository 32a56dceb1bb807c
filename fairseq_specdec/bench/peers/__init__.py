"""Other engines on the same checkpoint (the extra ``bench-peers``), a process for each format."""

import argparse
import functools
import importlib.util
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq import checkpoint_utils

from fairseq_specdec.errors import UsageError

from ...io.flag_values import flag_of
from ..child import Child, call_once
from ..engines import ENGINES
from ..systems import Plan, with_beam
from ..timing import System
from ..usage import until_at_rest
from ..workload import refuse

WORKER = "fairseq_specdec.bench.peers.worker"

Maker = Callable[[Any], System]  # of a Workload


def named(text: str) -> list[str]:
    """The engines that ``--peers`` names, separated by commas."""
    names = text.split(",")
    if not set(names) <= set(ENGINES) or len(set(names)) < len(names):
        raise UsageError(
            f"--peers {text}",
            f"expected different ones of {', '.join(ENGINES)}, separated by commas",
        )
    return names


def check(names: Sequence[str], plan: Plan) -> None:
    """Refuse ``--peers``, before any model is loaded, where an engine cannot do the same."""
    flags = plan.generation
    for name in names:
        engine = ENGINES[name]
        missing = [each for each in engine.needs if importlib.util.find_spec(each) is None]
        other = (each for each, value in engine.plain.items() if flags.get(each, value) != value)
        refuse({
            f"--peers: {engine.title} needs {' and '.join(missing)}; install with "
            "pip install fairseq_specdec[bench-peers], or leave it out": bool(missing),
            f"--peers: {engine.title} decodes no ensembles; give one checkpoint to --path":
                len(plan.paths) > 1,
            **{f"--peers: {flag_of(n)} has no counterpart in {engine.title}; leave one out": True
               for n in other},
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


def _start(name: str, kind: str, plan: Plan, workload: Any) -> tuple[Child, dict[str, Any]]:
    """A process that has loaded the checkpoint, converted, and what it reports of itself."""
    path, cfg, title = plan.paths[0], workload.task.cfg, ENGINES[name].title
    with tempfile.TemporaryDirectory(prefix="specdec-bench-") as folder:
        model = os.path.join(folder, "model")
        try:
            call_once(
                "the converter", f"{WORKER}:convert", engine=name,
                checkpoint=legible(path, folder), data=cfg.data.split(os.pathsep)[0],
                source=cfg.source_lang, target=cfg.target_lang, folder=model, kind=kind,
            )  # fmt: skip
        except Exception as error:  # the engine's own errors, and torch's or fairseq's under it
            raise UsageError(
                "--peers",
                f"{title} cannot represent {path} ({type(error).__name__}: {str(error)[:300]})",
                "leave it out",
            ) from error
        child = Child(f"--peers: {title} {kind}")
        ready = child.call(
            f"{WORKER}:load", engine=name, folder=model, kind=kind, cuda=workload.cuda,
            threads=torch.get_num_threads(), generation=plan.generation,
        )  # fmt: skip
    return child, {**ready, "engine": name}


class PeerSystem(System):
    """A row that a worker decodes.

    Args:
        plan: of the row.
        child: the process that decodes, with the engine and its model.
        ready: the engine's ``version``, and ``before``, bytes that the process had used before the
            model was loaded, and the ``engine``'s name.
        pad: token id.

    Attributes:
        peak: bytes that the process had used at most when it last answered; None if unknown.
    """

    def __init__(self, plan: Plan, child: Child, ready: dict[str, Any], pad: int) -> None:
        super().__init__(plan.name, None, ())
        self.flags, self.child, self.ready, self.pad = plan.generation, child, ready, pad
        self.peak: int | None = None

    def timed(self, sample: dict[str, Any]) -> tuple[list[Any], float, float]:
        """One hypothesis a sentence, ``tokens`` only, and the two times as the worker took them."""
        tokens = sample["net_input"]["src_tokens"]
        rows = [[t for t in row if t != self.pad] for row in tokens.tolist()]
        flags = self.flags
        limit = int(flags.get("max_len_a", 0) * tokens.size(1) + flags.get("max_len_b", 200))
        until_at_rest()  # the threads of what was decoded here before
        answer = self.child.call(f"{WORKER}:decode", rows=rows, limit=limit, beam=flags["beam"])
        self.peak = answer["peak"]
        hypotheses = [[{"tokens": torch.tensor(out)}] for out in answer["tokens"]]
        return hypotheses, answer["seconds"], answer["cpu"]


def makers(
    names: Sequence[str], plan: Plan, fp16: bool, beams: Sequence[int]
) -> list[tuple[Plan, Maker]]:
    """A (plan, function) for every row, as ``Session.makers`` gives them."""
    # One process for all rows of a format and a workload.
    start = functools.lru_cache(maxsize=None)(functools.partial(_start, plan=plan))

    def make(name: str, kind: str, row: Plan, workload: Any) -> System:
        process = start(name, kind, workload=workload)
        return PeerSystem(row, *process, workload.task.source_dictionary.pad())

    rows_and_makers: list[tuple[Plan, Maker]] = []
    for name in names:
        engine = ENGINES[name]
        for kind in engine.half_kinds if fp16 else engine.kinds:
            for beam in beams:
                if beam <= engine.widest:
                    title = f"{engine.title} {kind} beam {beam}"
                    row = with_beam(plan._replace(name=title, base=title), beam)
                    rows_and_makers.append((row, functools.partial(make, name, kind, row)))
    return rows_and_makers


def versions(systems: Sequence[System]) -> dict[str, str]:
    """Releases of the engines among the systems, by name."""
    return {
        system.ready["engine"]: system.ready["version"]
        for system in systems
        if isinstance(system, PeerSystem)
    }


def close(systems: Sequence[System]) -> None:
    """End the engines' processes."""
    for system in systems:
        if isinstance(system, PeerSystem):
            system.child.close()
