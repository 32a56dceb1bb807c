"""Compare decoding systems: speed, output and what they cost, paired in one run.

``specdec-bench DATA --path VERIFIER --system 'NAME: FLAGS' ...`` decodes the same sentences with
stock fairseq (beam 5 and beam 1) and with every system named, in turn, one batch at a time, checks
their outputs against stock beam 1, and prints tables. ``specdec-bench --replay SIZE ...`` measures
the engine with random models of a paper's size instead. See docs/benchmarks.md.
"""

from __future__ import annotations

import logging
import math
import sys
from typing import Any, Dict, List, Optional, Sequence

from . import figures, memory, peers, replay_cli, session
from .resume import continued
from .run import Run
from .session import Session
from .systems import Plan, build_stock, lossless, reference_key
from .text import Quality, Texts
from .timing import System, run_paired
from .workload import BenchError, Workload


class Bench(Run):
    """A run on checkpoints and a split.

    Args:
        asked: the command line.
        words: its words.
    """

    def __init__(self, asked: Session, words: Sequence[str]) -> None:
        self.asked = asked
        self.workload: Workload = asked.workload()
        self.plans: List[Plan] = [plan for plan, _ in asked.makers()]
        systems = asked.systems(self.workload)
        super().__init__(asked.args, words, systems, self.workload.cuda, self._checkpoints())
        self.texts = Texts(self.workload.task, asked.config)
        self.beam, self.greedy = (self.system(f"fairseq beam {width}") for width in (5, 1))
        self.results["settings"] = self._settings()
        self.results["systems"] = list(map(_described, systems, self.plans))
        if asked.args.resume:
            self.results = continued(asked.args.json, self.results)

    @property
    def left(self) -> List[int]:
        """Batch sizes still to measure."""
        done = {part["batch_size"] for part in self.results["runs"]}
        return [size for size in self.asked.sizes if size not in done]

    def _checkpoints(self) -> List[str]:
        drafters = [plan.settings.get("drafter_path") for plan in self.asked.plans]
        return [path for plan in self.plans for path in plan.paths] + [d for d in drafters if d]

    def _settings(self) -> Dict[str, Any]:
        args, config = self.asked.args, self.asked.config
        return {
            "data": args.data,
            "subset": config.dataset.gen_subset,
            "source_lang": self.workload.task.cfg.source_lang,
            "target_lang": self.workload.task.cfg.target_lang,
            "sentences": len(self.workload.order),
            "batch_sizes": self.asked.sizes,
            "repeats": args.repeats,
            "warmup": args.warmup,
            "fp16": bool(config.common.fp16),
            "cuda": self.workload.cuda,
        }

    def _references(self, batches: List[Any], size: int) -> List[System]:
        """Stock beam 1 of each row's own verifier and constraints; decoded if it is no row."""
        known = {reference_key(self.asked.main): self.greedy}
        for plan in self.plans:
            key = reference_key(plan)
            if key not in known:
                reference = build_stock(plan, self.workload, 1)
                title = f"reference, batch {size}"
                run_paired([reference], batches, warm_up=0, title=title)
                known[key] = reference
        return [known[reference_key(plan)] for plan in self.plans]

    def measure_size(self, size: int) -> None:
        """Run every system at one batch size and add the figures."""
        batches = self.workload.batches(size)
        references = self._references(batches, size)
        part = self.measure(batches, size, f"batch {size}", lambda: self._rows(references, size))
        data, by_edit_ratio = self.workload.data, part["by_edit_ratio"]
        part["sentences"] = self.greedy.sentences
        for system, plan in zip(self.systems, self.plans):
            if size == 1 and plan.settings.get("strategy") == "iad":
                by_edit_ratio[system.name] = figures.by_edit_ratio(system, self.greedy, data)
        if self.args.by_sentence:
            part["by_sentence"] = figures.by_sentence(self.systems, self.texts, data)

    def _rows(self, references: List[System], size: int) -> List[Dict[str, Any]]:
        quality = self.texts.quality(self.systems, self.workload.data)
        if quality is not None:
            self.results["quality"] = {"on": quality.on, "signature": quality.signature}
        rows = []
        for system, plan, reference in zip(self.systems, self.plans, references):
            row = self._row(system, plan, reference, quality)
            row["lossless"] = _promised(system)
            self._check(system, reference, size)
            rows.append(row)
        return rows

    def _row(
        self, system: System, plan: Plan, reference: System, quality: Optional[Quality]
    ) -> Dict[str, Any]:
        scores = (quality.score, quality.compound) if quality else (None, None)
        context = figures.Context(self.beam, self.greedy, reference, *scores)
        own_verifier = "" if reference is self.greedy else f" of {':'.join(plan.paths)}"
        return dict(
            figures.row(system, plan.settings.get("strategy"), context),
            sweep=plan.sweep,
            base=_base(system, plan),
            identical_to=f"fairseq beam 1{own_verifier}",
        )

    def _check(self, system: System, reference: System, size: int) -> None:
        """Whether the output is what it must be; what is not is said loudly."""
        where = f"batch size {size}"
        if system.unsteady and not system.sampled:
            count = len(system.unsteady)
            self.warn(f"{system.name}: {count} outputs differ between passes, {where}")
        wrong = figures.differing(system, reference) if _promised(system) else []
        if wrong and not self.asked.config.common.fp16:
            listed = ", ".join(map(str, wrong[:10])) + (", ..." if len(wrong) > 10 else "")
            self.warn(
                f"{system.name} is lossless under its settings, yet {len(wrong)} of "
                f"{len(reference.tokens)} outputs differ from stock beam 1, {where}; sentences "
                f"{listed}"
            )


def _promised(system: System) -> Optional[bool]:
    """Whether one of our systems is lossless; None for others, which promise nothing."""
    return lossless(system) if system.stats is not None else None


def _base(system: System, plan: Plan) -> str:
    return plan.base if system.stats is not None else system.name


def _described(system: System, plan: Plan) -> Dict[str, Any]:
    return {
        "name": system.name,
        "flags": list(plan.flags),
        "path": list(plan.paths),
        # JSON has no infinity, which --tau and --alpha-rb may be.
        "settings": {
            name: str(value) if value in (math.inf, -math.inf) else value
            for name, value in plan.settings.items()
        },
        "sweep": plan.sweep,
        "base": _base(system, plan),
        "lossless": _promised(system),
    }


def main(words: Sequence[str], say: Any) -> Dict[str, Any]:
    """Run the benchmark.

    Args:
        words: the command line.
        say: prints text.

    Returns:
        what ``--json`` writes.

    Raises:
        BenchError: naming the flag, file or system.
    """
    asked = session.read(words)
    bench = Bench(asked, words)
    left = bench.left
    try:
        for size in left:
            bench.measure_size(size)
            bench.write()  # so that a kill costs one batch size
    finally:
        peers.close(bench.systems)
    if not asked.args.no_memory and bench.results["memory"] is None:
        bench.measure_memory(lambda index: memory.measure(index, words))
        bench.write()
    elif not left:
        bench.write()  # the kill may have come between one file and the next
    say(bench.text())
    return bench.results


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    """The console script ``specdec-bench``."""
    # fairseq logs every file that it opens at level INFO.
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    words = list(sys.argv[1:] if arguments is None else arguments)
    replayed = any(word.partition("=")[0] == "--replay" for word in words)
    try:
        (replay_cli.main if replayed else main)(words, sys.stdout.write)
    except (BenchError, OSError) as error:
        raise SystemExit(f"specdec-bench: error: {error}") from error


if __name__ == "__main__":
    cli_main()
