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

from fairseq_specdec.io import provenance
from fairseq_specdec.io.progress import bar, logs_above

from . import (
    by_sentence,
    energy,
    figures,
    machine,
    memory,
    outputs,
    peers,
    replay_cli,
    session,
    tables,
    threads,
)
from .resume import continued
from .session import Session
from .systems import Plan, build_stock, lossless, reference_key
from .text import Texts
from .timing import System, run_paired
from .workload import BenchError, Workload

logger = logging.getLogger("fairseq_specdec.bench")


class Bench:
    """A run of the command.

    Args:
        asked: the command line.
        words: its words.
    """

    def __init__(self, asked: Session, words: Sequence[str]) -> None:
        self.asked = asked
        self.words = list(words)
        self.workload: Workload = asked.workload()
        self.plans: List[Plan] = [plan for plan, _ in asked.makers()]
        self.systems: List[System] = asked.systems(self.workload)
        self.texts = Texts(self.workload.task, asked.config)
        self.beam, self.greedy = (self.systems[asked.beams.index(width)] for width in (5, 1))
        self.run: Dict[str, Any] = {
            "provenance": machine.record(
                "specdec-bench",
                self.words,
                self._checkpoints(),
                self.workload.cuda,
                peers.versions(self.systems),
            ),
            "settings": self._settings(),
            "systems": [self._described(s, p) for s, p in zip(self.systems, self.plans)],
            "quality": None,
            "memory": None,
            "energy": None,
            "warnings": [],
            "runs": [],
        }
        self.meter = None if asked.args.no_energy else energy.find(self.workload.cuda)
        if asked.args.resume:
            self.run = continued(asked.args.json, self.run)

    @property
    def left(self) -> List[int]:
        """Batch sizes still to measure."""
        done = {part["batch_size"] for part in self.run["runs"]}
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

    def _described(self, system: System, plan: Plan) -> Dict[str, Any]:
        ours = system.stats is not None
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
            "base": plan.base if ours else system.name,
            "lossless": lossless(system) if ours else None,
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

    def measure(self, size: int) -> None:
        """Run every system at one batch size, add the figures and print the tables."""
        batches = self.workload.batches(size)
        references = self._references(batches, size)
        args = self.asked.args
        run_paired(
            self.systems,
            batches,
            args.warmup,
            args.repeats,
            f"batch {size}",
            self.asked.config.common.seed,
        )
        quality = self.texts.quality(self.systems, self.workload.data)
        if quality is not None:
            self.run["quality"] = {"on": quality.on, "signature": quality.signature}
        joules: Dict[str, float] = {}
        if self.meter is not None:
            self.run["energy"] = self.meter.what
            joules = energy.a_sentence(
                self.systems, batches, self.meter, self.asked.config.common.seed
            )
        rows = []
        for system, plan, reference in zip(self.systems, self.plans, references):
            scores = (quality.score, quality.compound) if quality else (None, None)
            context = figures.Context(self.beam, self.greedy, reference, *scores)
            row = figures.row(system, plan.settings.get("strategy"), context)
            row.update(
                self._check(system, reference, size),
                sweep=plan.sweep,
                base=plan.base if system.stats is not None else system.name,
                energy_j=joules.get(system.name),
                identical_to="fairseq beam 1"
                + ("" if reference is self.greedy else f" of {':'.join(plan.paths)}"),
            )
            rows.append(row)
        measured = {
            "batch_size": size,
            "rows": rows,
            "sentences": self.greedy.sentences,
            "load_average": provenance.load(),
            "thread_warnings": threads.warnings(self.systems, self.workload.cuda, size),
            "ms_by_batch": {s.name: [round(1000 * t, 4) for t in s.seconds] for s in self.systems},
            "seconds_by_pass": {
                s.name: [round(sum(passes), 6) for passes in zip(*s.times)] for s in self.systems
            },
        }
        measured.update({"speed_ups": {}, "by_edit_ratio": {}})
        if size == 1:
            measured.update(
                by_sentence.speed_ups(self.systems, self.plans, self.beam, self.workload.data)
            )
        if args.by_sentence:
            measured["by_sentence"] = by_sentence.columns(
                self.systems, self.texts, self.workload.data
            )
        self.run["runs"].append(measured)

    def _check(self, system: System, reference: System, size: int) -> Dict[str, Any]:
        """Whether the output is what it must be; what is not is said loudly."""
        where = f"batch size {size}"
        if system.unsteady and not system.sampled:
            self._warn(
                f"{system.name}: {len(system.unsteady)} outputs differ between passes, {where}"
            )
        if system.stats is None:
            return {"lossless": None}
        promised = lossless(system)
        wrong = figures.differing(system, reference) if promised else []
        if wrong and not self.asked.config.common.fp16:
            listed = ", ".join(map(str, wrong[:10])) + (", ..." if len(wrong) > 10 else "")
            self._warn(
                f"{system.name} is lossless under its settings, yet {len(wrong)} of "
                f"{len(reference.tokens)} outputs differ from stock beam 1, {where}; sentences "
                f"{listed}"
            )
        return {"lossless": promised}

    def _warn(self, text: str) -> None:
        self.run["warnings"].append(text)
        logger.warning("WARNING: %s", text)

    def measure_memory(self) -> None:
        """Add every system's peak memory, measured in a process of its own."""
        found = {}
        with logs_above():
            for index, system in enumerate(bar(self.systems, "memory", unit="system")):
                found[system.name] = memory.measure(index, self.words)
        for measured in self.run["runs"]:
            for row in measured["rows"]:
                memory.add(row, found[row["system"]], str(measured["batch_size"]))
        self.run["memory"] = memory.NOTE_GPU if self.workload.cuda else memory.NOTE_CPU

    def write(self) -> None:
        """Write the files asked for, with what is known so far."""
        outputs.write(self.asked.args, self.run, self.markdown())

    def markdown(self) -> str:
        """The tables, what their columns mean, and what they were measured on."""
        settings = self.run["settings"]
        parts = []
        for measured in self.run["runs"]:
            title = (
                f"{settings['source_lang']}-{settings['target_lang']}, {settings['subset']}: "
                f"{settings['sentences']} sentences, batch {measured['batch_size']}, median of "
                f"{settings['repeats']}"
            )
            rows = measured["rows"]
            parts.append(f"{title}\n\n{tables.markdown(tables.SPEED, rows)}")
            parts.append(tables.markdown(tables.TIME, rows))
        parts += [f"WARNING: {text}" for text in self.run["warnings"]]
        parts.append("\n".join(f"- {line}" for line in tables.legend(self.run)))
        facts = self.run["provenance"]
        parts.append(f"{machine.line(facts)}\n\n    {facts['command']}")
        return "\n\n".join(parts) + "\n"


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
            bench.measure(size)
            bench.write()  # so that a kill costs one batch size
    finally:
        peers.close(bench.systems)
    if not asked.args.no_memory and bench.run["memory"] is None:
        bench.measure_memory()
        bench.write()
    elif not left:
        bench.write()  # the kill may have come between one file and the next
    say(bench.markdown())
    return bench.run


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
