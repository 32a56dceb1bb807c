"""A distillation that is saved in chunks and resumed, by one process or several, and then published
whole.

``OUT.parts/<digest of the settings>`` beside the destination holds the chunks: files that are whole
or absent. They do not depend on the number of shards, so a run may be resumed with another number
of processes. Nothing else is kept: two processes that make the same chunk write the same file, and
of two that publish the second finds the result of the first.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fairseq_specdec.errors import UsageError

from ..io.atomic import read_json, replacing, sync, write_json
from ..io.progress import Counter
from ..io.provenance import digest_of, origin, sha256
from .corpus import each_pair
from .merge import write_corpus
from .part import Part
from .teacher import Hypotheses, joined

logger = logging.getLogger(__name__)
REPORT = "distill.json"
PACKAGES = ("fairseq_specdec", "fairseq", "torch", "numpy")

Shard = tuple[int, int]
"""Part i (from 0) of n equal parts."""


def resolve_shard(flag: str | None, environment: Mapping[str, str]) -> Shard:
    """Which shard this process is: ``--shard i/n``, else torchrun and the Slurm array, else 0/1.

    Under torchrun within a Slurm array both count: the array element's processes are its parts.

    Args:
        flag: ``"i/n"`` with ``0 <= i < n``, or None.
        environment: read are RANK and WORLD_SIZE, SLURM_ARRAY_TASK_ID, _COUNT, _MIN and _STEP.
    """
    if flag is not None:
        match = re.fullmatch(r"(\d+)/(\d+)", flag)
        if match is None or int(match[1]) >= int(match[2]):
            raise UsageError(
                f"--shard {flag}", "expected i/n with i counted from 0, e.g. 0/4 to 3/4"
            )
        return int(match[1]), int(match[2])
    rank, count = int(environment.get("RANK", 0)), int(environment.get("WORLD_SIZE", 1))
    task, elements, first, step = (
        int(environment.get(f"SLURM_ARRAY_TASK_{name}", default))
        for name, default in (("ID", 0), ("COUNT", 1), ("MIN", 0), ("STEP", 1))
    )
    if elements == 1:
        return rank, count
    place, rest = divmod(task - first, max(step, 1))
    if rest or not 0 <= place < elements:
        raise UsageError(
            f"SLURM_ARRAY_TASK_ID={task}",
            f"its place among {elements} is unknown, for the array's ids are not evenly spaced",
            "give --shard i/n",
        )
    return place * count + rank, elements * count


class Distillation:
    """The chunks of all pairs of languages, and how their corpus is published.

    Raises UsageError: ``--dest`` holds something else.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        pairs = getattr(args, "lang_pairs", None)
        settings: dict[str, Any] = {}
        if pairs is None or None not in (args.source_lang, args.target_lang):
            self.parts = [Part(args)]
        else:
            pairs = pairs.split(",") if isinstance(pairs, str) else list(pairs)
            self.parts = [Part(flags, pair) for pair, flags in each_pair(args, pairs)]
            settings = {"--source-lang": None, "--target-lang": None, "pairs": ",".join(pairs)}
        for part in self.parts:
            settings = {**part.settings, **settings}
        self.settings = {**settings, "--on-length-limit": args.on_length_limit}
        self.destination = os.path.abspath(args.dest)
        self.home = self.destination + ".parts"
        self.directory = os.path.join(self.home, digest_of(settings)[:16])
        self._check_destination()

    def path(self, name: str) -> str:
        """A file of the unfinished work."""
        return os.path.join(self.directory, name)

    def completed(self) -> dict[str, Any] | None:
        """The report of what these settings already made, or None."""
        path = os.path.join(self.destination, REPORT)
        report = read_json(path) if os.path.isfile(path) else {}
        return report if report.get("settings") == self.settings else None

    def _check_destination(self) -> None:
        there, now = self.destination, self.settings
        report = os.path.join(there, REPORT)
        if os.path.isfile(report):
            before = read_json(report).get("settings", {})
            changed = ", ".join(
                f"{name}: was {before.get(name)}, now is {now.get(name)}"
                for name in sorted({*before, *now})
                if before.get(name) != now.get(name)
            )
            problem = f"was made with other settings: {changed}"
        else:
            kept = os.listdir(there) if os.path.isdir(there) else os.path.lexists(there)
            changed = "all of it" if kept else ""
            problem = "exists and was not made by this command"
        if changed:
            raise UsageError("--dest", f"{there} {problem}", "choose another, or delete it")

    def todo(self, part: Part, shard: Shard = (0, 1)) -> list[int]:
        """The chunks of a shard that are not finished."""
        chunks = range(shard[0], len(part.plan.chunks), shard[1])
        return [chunk for chunk in chunks if not os.path.isfile(self.path(part.file(chunk)))]

    def decode(self, shard: Shard) -> None:
        """Decode and save this shard's unfinished chunks."""
        for part in self.parts:
            teacher, dataset = part.load()
            todo = self.todo(part, shard)
            chunks = [part.plan.chunks[chunk] for chunk in todo]
            with Counter(sum(map(part.plan.size, todo)), "sentence", logger) as progress:
                for chunk, made in zip(todo, teacher.decoded(dataset, chunks, progress.add)):
                    self.write(part, chunk, made)

    def write(self, part: Part, chunk: int, hypotheses: Hypotheses) -> None:
        """Save a finished chunk."""
        with replacing(self.path(part.file(chunk)), "wb", make_folder=True) as stream:
            np.savez(stream, **hypotheses._asdict())

    def run(self, decode: Callable[[], None], words: Sequence[str]) -> dict[str, Any] | None:
        """Do a shard's part; the process that finishes the last chunk publishes.

        Args:
            decode: makes the shard's chunks that are not finished.
            words: the command line, for the report.

        Returns:
            the report, or None while chunks of other shards are not finished.
        """
        missing = 0
        if self.completed() is None:
            try:
                decode()
                missing = sum(len(self.todo(part)) for part in self.parts)
                if not missing:
                    self._publish(words)
            except (OSError, ValueError):
                # Another process may have published, and removed the parts.
                if self.completed() is None:
                    raise
        done = self.completed()
        if done is None:
            logger.info("done here; %d chunks of other shards are not finished yet", missing)
        else:
            logger.info("%s is complete", self.destination)
            shutil.rmtree(self.directory, ignore_errors=True)
            with contextlib.suppress(OSError):  # it has work of other settings
                os.rmdir(self.home)
        return done

    def _publish(self, words: Sequence[str]) -> None:
        building = self.path("merged-" + uuid.uuid4().hex)
        try:
            os.makedirs(building)
            made = {part.pair: self._build(part, building) for part in self.parts}
            first = self.parts[0]
            files = {}
            for name in sorted(os.listdir(building)):
                sync(os.path.join(building, name))
                files[name] = sha256(os.path.join(building, name))
            report = {
                "settings": self.settings,
                "corpus": first.corpus.directory,
                "teacher": first.config.common_eval.path,
                "command": shlex.join(["specdec-distill", *words]),
                **origin(PACKAGES),
                **({"pairs": made} if first.pair else made[""]),
                "files": files,
            }
            write_json(os.path.join(building, REPORT), report)
            os.rename(building, self.destination)  # fails where others have published meanwhile
        finally:
            shutil.rmtree(building, ignore_errors=True)
        sync(os.path.dirname(self.destination))

    def _build(self, part: Part, folder: str) -> dict[str, Any]:
        """Write the corpus of a pair into a folder; returns its part of the report."""
        pieces = []
        for chunk in range(len(part.plan.chunks)):
            with np.load(self.path(part.file(chunk)), allow_pickle=False) as arrays:
                pieces.append(Hypotheses(**arrays))
        hypotheses = joined(pieces)
        rate = len(hypotheses.indices) / max(float(hypotheses.seconds.sum()), 1e-9)
        return {
            "counts": write_corpus(part, hypotheses, folder),
            "decoding": {"sentences_per_second_and_process": round(rate, 3)},
        }
