"""A run of ``specdec-bench``: measure systems in turns, keep the results, write the files."""

from __future__ import annotations

import logging
import math
import os
from typing import Any, Dict, List, Optional, Sequence

from fairseq_specdec.io import provenance
from fairseq_specdec.io.atomic import write_bytes, write_json, write_text
from fairseq_specdec.io.progress import bar, logs_above

from . import figures, machine, memory, peers, plots, replay, tables, usage
from .identity import TOLERANCE
from .page import page
from .resume import continued
from .session import Session
from .systems import Plan, build_stock, reference_key, with_beam
from .text import Texts
from .timing import System, run_paired
from .workload import Workload

logger = logging.getLogger("fairseq_specdec.bench")

# What is not said of a replay, whose outputs mean nothing.
OUTPUT_FIGURES = (
    "bleu", "bleu_compound", "identical_percent", "identical_to", "unsteady_sentences", "lossless",
    "near_ties", "score_difference",
)  # fmt: skip


class Bench:
    """Systems, what was measured of them so far, and where it is written.

    Args:
        asked: the command line.
        words: its words.

    Attributes:
        results: what ``--json`` holds.
    """

    def __init__(self, asked: Session, words: Sequence[str]) -> None:
        self.asked, self.args, self.replay = asked, asked.args, asked.replay
        self.words = list(words)
        self.workload: Workload = asked.workload()
        makers = asked.makers()
        self.plans: List[Plan] = [plan for plan, _ in makers]
        self.systems: List[System] = [make(self.workload) for _, make in makers]
        self.texts = Texts(self.workload.task, asked.config)
        self.beam, self.greedy = (self.system(f"fairseq beam {width}") for width in (5, 1))
        versions = peers.versions(self.systems)
        self.results: Dict[str, Any] = {
            "provenance": machine.record(words, self._checkpoints(), self.workload.cuda, versions),
            "settings": self._settings(),
            "systems": list(map(self._described, self.systems, self.plans)),
            "quality": None,
            "memory": None,
            "warnings": [],
            "runs": [],
        }
        if self.replay is not None:
            self.results["replay"] = {"notice": replay.NOTICE, **self.replay.described()}
        if self.args.resume:
            self.results = continued(self.args.json, self.results)

    @property
    def left(self) -> List[int]:
        """Batch sizes still to measure."""
        done = {part["batch_size"] for part in self.results["runs"]}
        return [size for size in self.asked.sizes if size not in done]

    def system(self, name: str) -> System:
        """The system of a row."""
        return next(system for system in self.systems if system.name == name)

    def _checkpoints(self) -> List[str]:
        """Files whose checksums are recorded."""
        if self.replay is not None:
            return []
        drafters = [plan.settings.get("drafter_path") for plan in self.asked.plans]
        return [path for plan in self.plans for path in plan.paths] + [d for d in drafters if d]

    def _settings(self) -> Dict[str, Any]:
        args, config = self.args, self.asked.config
        found = {
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
        if self.replay is not None:
            names = ("replay", "vocabulary", "length", "block_size", "seed", "strategies")
            names += ("mean_accepted", "mean_copied")
            found.update(data=None, **{name: getattr(args, name) for name in names})
        return found

    def _described(self, system: System, plan: Plan) -> Dict[str, Any]:
        if self.replay is not None:
            return {"name": system.name}
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
            "lossless": _promised(system, plan),
        }

    def _references(self, batches: List[Any], size: int) -> List[System]:
        """Stock of each row's own verifier, constraints and beam; decoded if it is no row."""
        known = {
            reference_key(with_beam(self.asked.main, beam)): self.system(f"fairseq beam {beam}")
            for beam in self.asked.beams
        }
        for plan in self.plans:
            key = reference_key(plan)
            if key not in known:
                reference = build_stock(plan, self.workload, plan.generation["beam"])
                title = f"reference, batch {size}"
                run_paired([reference], batches, warm_up=0, title=title)
                known[key] = reference
        return [known[reference_key(plan)] for plan in self.plans]

    def measure_size(self, size: int) -> None:
        """Run every system at one batch size and add the figures."""
        args, data, batches = self.args, self.workload.data, self.workload.batches(size)
        references = self._references(batches, size)
        title = f"batch {size}"
        run_paired(self.systems, batches, args.warmup, args.repeats, title, args.seed)
        part: Dict[str, Any] = {
            "batch_size": size,
            "rows": self._rows(references, size),
            "sentences": self.greedy.sentences,
            "load_average": provenance.load(),
            "thread_warnings": usage.thread_warnings(self.systems, self.workload.cuda, size),
            **figures.passes(self.systems),
        }
        if args.by_sentence:
            part["by_sentence"] = figures.by_sentence(self.systems, self.texts, data)
        self.results["runs"].append(part)

    def _rows(self, references: List[System], size: int) -> List[Dict[str, Any]]:
        for system in self.systems if self.replay is not None else ():
            # CTranslate2's words come back with an </s> that took no step.
            system.tokens = {n: out[: self.args.length] for n, out in system.tokens.items()}
        quality = self.texts.quality(self.systems, self.workload.data)
        if quality is not None:
            self.results["quality"] = {"on": quality.on, "signature": quality.signature}
        scores = (quality.score, quality.compound) if quality else (None, None)
        rows = []
        for system, plan, reference in zip(self.systems, self.plans, references):
            context = figures.Context(self.beam, self.greedy, reference, *scores)
            row = self._row(system, plan, context)
            if self.replay is not None:
                row = {key: value for key, value in row.items() if key not in OUTPUT_FIGURES}
            rows.append(row)
            for text in self._faults(system, plan, reference):
                self.results["warnings"].append(f"{text}, batch size {size}")
                logger.warning("WARNING: %s, batch size %d", text, size)
        return rows

    def _row(self, system: System, plan: Plan, context: figures.Context) -> Dict[str, Any]:
        other = "" if context.reference in self.systems else f" of {':'.join(plan.paths)}"
        return dict(
            figures.row(system, plan, context),
            sweep=plan.sweep,
            base=_base(system, plan),
            identical_to=context.reference.name + other,
            lossless=_promised(system, plan),
        )

    def _faults(self, system: System, plan: Plan, reference: System) -> List[str]:
        """What is not as it must be in what a system put out."""
        if self.replay is not None:
            strategy = plan.settings.get("strategy")
            tok = self.replay.tok(strategy) if strategy in self.replay.sizes else None
            return replay.faults(system, self.args.length, tok)
        found = []
        if system.unsteady and not system.sampled:
            count = len(system.unsteady)
            found.append(f"{system.name}: {count} outputs differ between passes")
        if not _promised(system, plan) or self.asked.config.common.fp16:
            return found
        verdicts = figures.verdicts(system, reference, plan.generation["nbest"])
        wrong = [n for n, each in verdicts.items() if not each.same or each.away > TOLERANCE]
        if wrong:
            listed = ", ".join(map(str, wrong[:10])) + (", ..." if len(wrong) > 10 else "")
            near = sum(each.near_tie for each in verdicts.values())
            found.append(
                f"{system.name} is lossless under its settings, yet {len(wrong)} of "
                f"{len(verdicts)} outputs differ from stock beam {plan.generation['beam']}, "
                f"{near} of them at a near-tie (sentences {listed})"
            )
        return found

    def measure_memory(self) -> None:
        """Add every system's peak memory, in MiB, measured in a process of its own."""
        with logs_above():
            shown = bar(range(len(self.systems)), "memory", unit="system")
            folder = self.args.data if self.replay is not None else ""
            found = {
                self.systems[index].name: memory.measure(index, self.words, folder)
                for index in shown
            }
        for part in self.results["runs"]:
            for row in part["rows"]:
                memory.add(row, found[row["system"]], str(part["batch_size"]))
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
            path = os.path.join(args.plots, each.name + ".png")
            write_bytes(path, each.png, make_folder=True)
        if args.html:
            write_text(args.html, page(results, pictures), make_folder=True)


def _promised(system: System, plan: Plan) -> Optional[bool]:
    """Whether one of our systems is lossless under its settings; None for others, which promise
    nothing. In another number format the verifier itself is another."""
    if system.stats is None:
        return None
    rule = getattr(system.generator, "rule", None)
    exact = plan.settings.get("verifier_dtype", "fp32") == "fp32"
    return exact and bool(getattr(rule, "lossless", False))


def _base(system: System, plan: Plan) -> str:
    return plan.base if system.stats is not None else system.name
