"""A run of ``specdec-bench``: measure systems in turns, keep the results, write the files."""

import json
import logging
import math
import os
import shlex
from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io import provenance
from fairseq_specdec.io.atomic import write_bytes, write_json, write_text
from fairseq_specdec.io.progress import bar, logs_above

from . import figures, greedy_rows, machine, memory, peers, plots, tables, usage
from .identity import TOLERANCE
from .page import page
from .session import Session
from .systems import Plan, build_stock, reference_key, with_beam
from .text import Texts
from .timing import System, run_paired
from .workload import Workload

logger = logging.getLogger("fairseq_specdec.bench")

# What must be the same for two halves to be one run.
SAME = ("commit", "machine", "versions", "threads", "environment", "checkpoints")


class Bench:
    """Systems, what was measured of them so far, and where it is written."""

    def __init__(self, asked: Session) -> None:
        self.asked, self.args = asked, asked.args
        self.workload: Workload = asked.workload()
        makers = asked.makers()
        self.plans: list[Plan] = [plan for plan, _ in makers]
        self.systems: list[System] = [make(self.workload) for _, make in makers]
        self.beam, self.greedy = (self.system(f"fairseq beam {width}") for width in (5, 1))
        hidden = self.beam.generator.symbols_to_strip_from_output
        self.texts = Texts(self.workload.task, asked.config, hidden)
        versions = peers.versions(self.systems)
        self.results: dict[str, Any] = {
            "provenance": machine.record(
                asked.words, self._checkpoints(), self.workload.cuda, versions
            ),
            "settings": self._settings(),
            "systems": list(map(self._described, self.systems, self.plans)),
            "quality": None,
            "memory": None,
            "warnings": [],
            "runs": [],
        }

    def resume(self) -> None:
        """With ``--resume``, go on with the results of ``--json``."""
        if self.args.resume:
            self.results = continued(self.args.json, self.results)

    @property
    def left(self) -> list[int]:
        """Batch sizes still to measure."""
        done = {part["batch_size"] for part in self.results["runs"]}
        return [size for size in self.asked.sizes if size not in done]

    def system(self, name: str) -> System:
        return next(system for system in self.systems if system.name == name)

    def _checkpoints(self) -> list[str]:
        """Files whose checksums are recorded."""
        drafters = [plan.settings.get("drafter_path") for plan in self.asked.plans]
        return [path for plan in self.plans for path in plan.paths] + [d for d in drafters if d]

    def _settings(self) -> dict[str, Any]:
        args, config = self.args, self.asked.config
        return {
            "data": args.data,
            "subset": args.text or config.dataset.gen_subset,
            "source_lang": config.task.source_lang,
            "target_lang": config.task.target_lang,
            "sentences": len(self.workload.order),
            "batch_sizes": self.asked.sizes,
            "repeats": args.repeats,
            "warmup": args.warmup,
            "fp16": bool(config.common.fp16),
            "cuda": self.workload.cuda,
            "isa": args.isa,
        }

    def _described(self, system: System, plan: Plan) -> dict[str, Any]:
        return {
            "name": system.name,
            "flags": list(plan.flags),
            "path": list(plan.paths),
            # JSON has no infinity, which --tau and --alpha-rb may be.
            "settings": {
                name: str(value) if value in (math.inf, -math.inf) else value
                for name, value in plan.settings.items()
            },
            **_claims(system, plan),
        }

    def _references(self, batches: list[Any], size: int) -> list[System]:
        """Stock of each row's own verifier, constraints and beam; decoded if it is no row."""
        main, keys = self.asked.main, [reference_key(plan) for plan in self.plans]
        known = {
            reference_key(with_beam(main, beam)): self.system(f"fairseq beam {beam}")
            for beam in self.asked.beams
        }
        for plan, key in zip(self.plans, keys):
            if key not in known:
                known[key] = build_stock(plan, self.workload, plan.generation["beam"])
                title = f"reference, batch {size}"
                run_paired([known[key]], batches, warm_up=0, title=title)
        return [known[key] for key in keys]

    def measure_size(self, size: int) -> None:
        """Run every system at one batch size and add the figures."""
        args, data, batches = self.args, self.workload.data, self.workload.batches(size)
        references = self._references(batches, size)
        title = f"batch {size}"
        run_paired(self.systems, batches, args.warmup, args.repeats, title, args.seed)
        part: dict[str, Any] = {
            "batch_size": size,
            "rows": self.measure_rows(references, size),
            "sentences": self.greedy.sentences,
            "load_average": provenance.load(),
            "thread_warnings": usage.thread_warnings(self.systems, self.workload.cuda, size),
            **figures.passes(self.systems),
        }
        if args.by_sentence:
            part["by_sentence"] = figures.by_sentence(self.systems, self.texts, data)
        self.results["runs"].append(part)

    def measure_rows(self, references: list[System], size: int) -> list[dict[str, Any]]:
        """The figures of every system at a batch size; adds what is wrong to the warnings."""
        quality = self.texts.quality(self.systems, self.workload.data)
        if quality is not None:
            self.results["quality"] = {"on": quality.on, "signature": quality.signature}
        rows = []
        for system, plan, reference in zip(self.systems, self.plans, references):
            greedy = greedy_rows.of(plan, self.plans)
            plain = greedy and self.systems[self.plans.index(greedy)]
            context = figures.Context(self.beam, self.greedy, plain, reference, quality)
            rows.append(self._row(system, plan, context))
            for text in self.faults(system, plan, reference):
                self.results["warnings"].append(f"{text}, batch size {size}")
                logger.warning("WARNING: %s, batch size %d", text, size)
        return rows

    def _row(self, system: System, plan: Plan, context: figures.Context) -> dict[str, Any]:
        other = "" if context.reference in self.systems else f" of {':'.join(plan.paths)}"
        row = {**figures.row(system, plan, context), **_claims(system, plan)}
        row["identical_to"] = context.reference.name + other
        return row

    def faults(self, system: System, plan: Plan, reference: System) -> list[str]:
        """What is not as it must be in the outputs of a system."""
        messages = []
        if system.unsteady and not system.sampled:
            count = len(system.unsteady)
            messages.append(f"{system.name}: {count} outputs differ between passes")
        if not _promised(system, plan) or self.asked.config.common.fp16:
            return messages
        comparisons = figures.comparisons(system, reference, plan.generation["nbest"])
        wrong = [n for n, each in comparisons.items() if not each.same or each.away > TOLERANCE]
        if wrong:
            listed = ", ".join(map(str, wrong[:10])) + (", ..." if len(wrong) > 10 else "")
            near = sum(each.near_tie for each in comparisons.values())
            messages.append(
                f"{system.name} is lossless under its settings, yet {len(wrong)} of "
                f"{len(comparisons)} outputs differ from stock beam {plan.generation['beam']}, "
                f"{near} of them at a near-tie (sentences {listed})"
            )
        return messages

    def measure_memory(self) -> None:
        """Add every system's peak memory, in MiB, measured in a process of its own."""
        with logs_above():
            shown = bar(range(len(self.systems)), "memory", unit="system")
            measurements = [memory.measure(index, self.asked.words) for index in shown]
        for part in self.results["runs"]:
            for row, measured in zip(part["rows"], measurements):
                peak = measured and measured["peaks"][str(part["batch_size"])]
                if measured is not None and peak is not None:
                    row["memory_mb"], row["memory_before_mb"] = (
                        peak / 2**20,
                        measured["before"] / 2**20,
                    )
        self.results["memory"] = memory.NOTE_GPU if self.workload.cuda else memory.NOTE_CPU

    def write(self) -> None:
        """Write the files asked for, with what is known so far; each is whole or absent."""
        args, results = self.args, self.results
        if args.json:
            write_json(args.json, results, make_folder=True)
        if args.markdown:
            write_text(args.markdown, tables.document(results), make_folder=True)
        pictures = plots.draw(results) if args.plots or args.html else []
        for each in pictures if args.plots else []:
            write_bytes(os.path.join(args.plots, f"{each.name}.png"), each.png, make_folder=True)
        if args.html:
            write_text(args.html, page(results, pictures), make_folder=True)


def _promised(system: System, plan: Plan) -> bool | None:
    """Whether one of our systems is lossless under its settings; None for others, which promise
    nothing. In another number format the verifier itself is another."""
    if system.stats is None:
        return None
    rule = getattr(system.generator, "rule", None)
    exact = plan.settings.get("verifier_dtype", "fp32") == "fp32"
    return exact and bool(getattr(rule, "lossless", False))


def _claims(system: System, plan: Plan) -> dict[str, Any]:
    """What was swept, of which system, and whether it is lossless."""
    base = plan.base if system.stats is not None else system.name
    return {"sweep": plan.sweep, "base": base, "lossless": _promised(system, plan)}


def continued(path: str, run: dict[str, Any]) -> dict[str, Any]:
    """The results of the run that is to go on, or the new ones where it had not come to any."""
    if not os.path.exists(path):
        return run
    try:
        with open(path, encoding="utf-8") as stream:
            before: dict[str, Any] = json.load(stream)
        facts = before["provenance"]
        unlike = [name for name in SAME if facts[name] != run["provenance"][name]]
        commands = [shlex.split(each["command"]) for each in (facts, run["provenance"])]
        one, other = ([word for word in words if word != "--resume"] for words in commands)
        if one != other:
            unlike.insert(0, "command")
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError("--resume", f"{path} is no result of specdec-bench") from error
    if unlike:
        raise UsageError(
            "--resume",
            f"{path} holds another run ({', '.join(unlike)} differ)",
            "name another --json or leave the flag out",
        )
    facts["resumed"] = [*facts.get("resumed", []), run["provenance"]["time"]]
    return before
