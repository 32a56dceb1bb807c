"""A run of ``specdec-bench``: measure systems in turns, keep the results, write the files."""

from __future__ import annotations

import argparse
import logging
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from fairseq_specdec.io import provenance
from fairseq_specdec.io.atomic import write_bytes, write_json, write_text
from fairseq_specdec.io.progress import bar, logs_above

from . import figures, machine, memory, peers, plots, tables, threads
from .page import page
from .timing import System, run_paired

logger = logging.getLogger("fairseq_specdec.bench")


class Run:
    """Systems, what was measured of them so far, and where it is written.

    Args:
        args: the command line, with the flags of ``flags``.
        words: its words.
        systems: stock beam 5 and stock beam 1 among them.
        cuda: whether a GPU does the work.
        checkpoints: files whose checksums are recorded.

    Attributes:
        results: what ``--json`` holds.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        words: Sequence[str],
        systems: List[System],
        cuda: bool,
        checkpoints: Sequence[str] = (),
    ) -> None:
        self.args = args
        self.words = list(words)
        self.systems = systems
        self.cuda = cuda
        engines = peers.versions(systems)
        self.results: Dict[str, Any] = {
            "provenance": machine.record(words, checkpoints, cuda, engines),
            "settings": {},
            "systems": [],
            "quality": None,
            "memory": None,
            "warnings": [],
            "runs": [],
        }

    def measure(
        self,
        batches: List[Dict[str, Any]],
        size: int,
        title: str,
        rows: Callable[[], List[Dict[str, Any]]],
    ) -> Dict[str, Any]:
        """Decode with all systems in turns, and add the figures to the results.

        Args:
            batches: fairseq samples of ``size`` sentences.
            title: of the progress bar.
            rows: makes every system's row of figures, when all have decoded.

        Returns:
            the part of the results, which has been added.
        """
        args = self.args
        run_paired(self.systems, batches, args.warmup, args.repeats, title, args.seed)
        part: Dict[str, Any] = {
            "batch_size": size,
            "rows": rows(),
            "load_average": provenance.load(),
            "thread_warnings": threads.warnings(self.systems, self.cuda, size),
            **figures.passes(self.systems),
            "speed_ups": {},
            "by_edit_ratio": {},
        }
        if size == 1:
            beam = self.system("fairseq beam 5")
            part["speed_ups"] = {s.name: figures.speed_ups(s, beam) for s in self.systems}
        self.results["runs"].append(part)
        return part

    def system(self, name: str) -> System:
        """The system of a row."""
        return next(system for system in self.systems if system.name == name)

    def measure_memory(self, measure: Callable[[int], Optional[Mapping[str, Any]]]) -> None:
        """Add every system's peak memory, in MiB, measured in a process of its own.

        Args:
            measure: peaks by batch size of a system, counted from 0, as ``memory`` gives them.
        """
        with logs_above():
            shown = bar(range(len(self.systems)), "memory", unit="system")
            found = {self.systems[index].name: measure(index) for index in shown}
        for part in self.results["runs"]:
            for row in part["rows"]:
                memory.add(row, found[row["system"]], str(part["batch_size"]))
        self.results["memory"] = memory.NOTE_GPU if self.cuda else memory.NOTE_CPU

    def warn(self, text: str) -> None:
        """Say loudly, and keep in the results, what is not as it must be."""
        self.results["warnings"].append(text)
        logger.warning("WARNING: %s", text)

    def text(self) -> str:
        """The tables, as ``--markdown`` has them."""
        return tables.document(self.results)

    def write(self) -> None:
        """Write the files asked for, with what is known so far; each is whole or absent."""
        args, results = self.args, self.results
        if args.json:
            write_json(args.json, results, make_folder=True)
        if args.markdown:
            write_text(args.markdown, self.text(), make_folder=True)
        pictures = plots.draw(results) if args.plots or args.html else []
        for each in pictures if args.plots else []:
            path = os.path.join(args.plots, each.name + ".png")
            write_bytes(path, each.png, make_folder=True)
        if args.html:
            write_text(args.html, page(results, pictures), make_folder=True)
