"""Compare decoding systems: speed, output and what they cost, paired in one run.

``specdec-bench DATA --path VERIFIER --system 'NAME: FLAGS' ...`` decodes the same sentences with
stock fairseq (beam 5 and beam 1) and with every system named, in turn, one batch at a time, checks
their outputs against stock beam 1, and prints tables. See docs/benchmarks.md.
"""

from __future__ import annotations

import logging
import math
import os
import platform
import shlex
import sys
from collections.abc import Callable, Sequence

import torch

from fairseq_specdec.engine.backend import missing_engine
from fairseq_specdec.io import provenance
from fairseq_specdec.io.atomic import write_json, write_text

from ..commands.own import load_plugin, log_to_stderr, reporting
from . import figures, session, tables
from .outputs import TOLERANCE, Figures, Texts
from .systems import Plan, build_stock, greedy_of, reference_key, with_beam
from .timing import Sample, System, run_paired
from .workload import Workload

logger = logging.getLogger("fairseq_specdec.bench")

PACKAGES = ("fairseq_specdec", "torch", "fairseq", "numpy", "sacrebleu")
NO_QUALITY: Figures = dict.fromkeys(("bleu", "exact_percent", "bleu_compound"))
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")


def record(
    arguments: Sequence[str], checkpoints: Sequence[str], cuda: bool, engines: dict[str, str]
) -> Figures:
    """All that a figure depends on and that another run could differ in."""
    facts, cpu = provenance.origin(PACKAGES), provenance.cpu()
    facts["versions"].update(engines)
    return {
        "command": shlex.join(["specdec-bench", *arguments]),
        **facts,
        "machine": {
            "device": torch.cuda.get_device_name() if cuda else cpu,
            "cpu": cpu,
            "cores": provenance.cores(),
            "platform": platform.platform(),
            "memory_bytes": provenance.memory_bytes(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "missing_engine": "" if cuda else missing_engine(),
            "cuda": torch.version.cuda if cuda else None,
        },
        "load_average": list(os.getloadavg()),
        "threads": torch.get_num_threads(),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "checkpoints": {
            path: "sha256:" + provenance.sha256(path) for path in sorted(set(checkpoints))
        },
    }


class Bench:
    """Systems, and what was measured of them so far. ``extra``: rows of other engines, which have
    no ``settings``, between stock's and this project's."""

    def __init__(self, asked: session.Session, extra: Sequence[Plan] = ()) -> None:
        self.asked, self.args, config = asked, asked.args, asked.config
        self.workload: Workload = asked.workload()
        self.plans: list[Plan] = [*asked.stock.values(), *extra, *asked.plans]
        self.systems: list[System] = [plan.system(self.workload) for plan in self.plans]
        self.stock = dict(zip(asked.stock, self.systems))
        hidden = self.stock[1].generator.symbols_to_strip_from_output
        self.texts = Texts(self.workload.task, config, hidden)
        checkpoints = [path for plan in self.plans for path in plan.paths]
        checkpoints += filter(None, (p.settings.get("drafter_path") for p in asked.plans))
        versions = {name: v for each in self.systems for name, v in each.versions.items()}
        self.results: Figures = {
            "provenance": record(asked.arguments, checkpoints, self.workload.cuda, versions),
            "settings": {
                **{name: getattr(self.args, name) for name in ("data", "repeats", "warmup")},
                "subset": self.args.text or config.dataset.gen_subset,
                "source_lang": config.task.source_lang,
                "target_lang": config.task.target_lang,
                "sentences": len(self.workload.order),
                "batch_sizes": asked.sizes,
                "fp16": bool(config.common.fp16),
                "cuda": self.workload.cuda,
            },
            "systems": list(map(_described, self.systems, self.plans)),
            **{"quality": None, "warnings": [], "runs": []},
        }

    def run(self, write: Callable[[str], object]) -> Figures:
        """Measure, write the files after each batch size, and print the tables."""
        for size in self.asked.sizes:
            self.measure_size(size)
            self.write()
        write(tables.document(self.results))
        return self.results

    def write(self) -> None:
        """Write the files asked for, with what is known so far; each is whole or absent."""
        if self.args.json:
            write_json(self.args.json, self.results)
        if self.args.markdown:
            write_text(self.args.markdown, tables.document(self.results))

    def _references(self, batches: list[Sample], size: int) -> list[System]:
        """Stock of each row's own verifier, constraints and beam; decoded if it is no row."""
        main, keys = self.asked.stock[1], [reference_key(plan) for plan in self.plans]
        known = {reference_key(with_beam(main, beam)): s for beam, s in self.stock.items()}
        for plan, key in zip(self.plans, keys):
            if key not in known:
                known[key] = build_stock(plan, self.workload, plan.generation["beam"])
                title = f"reference, batch {size}"
                run_paired([known[key]], batches, warm_up=0, title=title)
        return [known[key] for key in keys]

    def measure_size(self, size: int) -> None:
        """Run every system at one batch size and add the figures."""
        args, batches = self.args, self.workload.batches(size)
        references = self._references(batches, size)
        run_paired(self.systems, batches, args.warmup, args.repeats, f"batch {size}", args.seed)
        part: Figures = {
            "batch_size": size,
            "rows": self.measure_rows(references, size),
            "sentences": self.systems[0].sentences,
            "load_average": list(os.getloadavg()),  # over 1, 5 and 15 minutes
            "ms_by_batch": {s.name: [round(1000 * t, 4) for t in s.seconds] for s in self.systems},
            "seconds_by_pass": {
                s.name: [round(sum(each), 6) for each in zip(*s.times)] for s in self.systems
            },
        }
        if args.by_sentence:
            part["by_sentence"] = figures.by_sentence(self.systems, self.texts, self.workload.data)
        self.results["runs"].append(part)

    def measure_rows(self, references: list[System], size: int) -> list[Figures]:
        """The figures of every system at a batch size; adds what is wrong to the warnings."""
        tokens = {system.name: system.tokens for system in self.systems}
        quality = self.texts.quality(tokens, self.workload.data)
        if quality is not None:
            signature = str(self.texts.bleu.get_signature())
            self.results["quality"] = {"on": self.texts.kind, "signature": signature}
        rows = []
        for system, plan, reference in zip(self.systems, self.plans, references):
            greedy = greedy_of(plan, self.plans)
            plain = greedy and self.systems[self.plans.index(greedy)]
            bases = {"beam5": self.stock[5], "beam1": self.stock[1], "greedy": plain}
            other = "" if reference in self.systems else f" of {':'.join(plan.paths)}"
            rows.append({
                **figures.row(system, plan, reference, bases),
                **(quality[system.name] if quality else NO_QUALITY),
                "sweep": plan.sweep, "base": plan.base or system.name,
                "lossless": _promised(system, plan), "identical_to": reference.name + other,
            })  # fmt: skip
            for text in self.faults(system, plan, reference):
                self.results["warnings"].append(f"{text}, batch size {size}")
                logger.warning("WARNING: %s, batch size %d", text, size)
        return rows

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


def _promised(system: System, plan: Plan) -> bool | None:
    """Whether one of our systems is lossless under its settings; None for others, which promise
    nothing. In another precision the verifier itself differs."""
    if system.stats is None:
        return None
    exact = plan.settings.get("verifier_dtype", "fp32") == "fp32"
    return exact and bool(getattr(getattr(system.generator, "rule", None), "lossless", False))


def _described(system: System, plan: Plan) -> Figures:
    # JSON has no infinity, which --tau and --alpha-rb may be.
    endless = (math.inf, -math.inf)
    settings = {k: str(v) if v in endless else v for k, v in plan.settings.items()}
    return {
        "name": system.name, "flags": list(plan.flags), "path": list(plan.paths),
        "settings": settings,
    }  # fmt: skip


def main(arguments: Sequence[str], write: Callable[[str], object]) -> Figures:
    """Run the command. Returns what ``--json`` writes."""
    return Bench(session.read(arguments)).run(write)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    # fairseq logs every file that it opens at level INFO.
    log_to_stderr("%(message)s", logging.WARNING)
    with reporting("specdec-bench", arguments) as given:
        main(given, sys.stdout.write)


if __name__ == "__main__":
    cli_main()
