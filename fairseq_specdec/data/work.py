"""Work that is saved in chunks and resumed, by one process or several, and then published whole.

``OUT.parts/<digest of the settings>`` beside the destination holds the chunks: files that are whole
or absent. They do not depend on the number of shards, so a run may be resumed with another number
of processes. Nothing else is kept: two processes that make the same chunk write the same file, and
of two that publish the second finds the result of the first. Locks only save work.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

import torch

from fairseq_specdec.errors import UsageError

from ..io.atomic import own_suffix, read_json, replacing, sync, write_json
from ..io.file_locks import alone
from ..io.provenance import digest_of, origin, sha256

logger = logging.getLogger(__name__)
REPORT = "distill.json"
SETTINGS = "settings.json"
PACKAGES = ("fairseq_specdec", "fairseq", "torch", "numpy")


class Shard(NamedTuple):
    """Part ``rank`` (from 0) of ``world`` equal parts."""

    rank: int
    world: int


ALONE = Shard(0, 1)


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
        return Shard(int(match[1]), int(match[2]))
    rank, count = (int(environment.get(*each)) for each in (("RANK", "0"), ("WORLD_SIZE", "1")))
    if not {"SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_ID"} <= set(environment):
        return Shard(rank, count)
    task, elements, first, step = (
        int(environment.get(f"SLURM_ARRAY_TASK_{name}", default))
        for name, default in (("ID", "0"), ("COUNT", "1"), ("MIN", "0"), ("STEP", "1"))
    )
    place, rest = divmod(task - first, max(step, 1))
    if rest or not 0 <= place < elements:
        raise UsageError(
            f"SLURM_ARRAY_TASK_ID={task}",
            f"its place among {elements} is unknown, for the array's ids are not evenly spaced",
            "give --shard i/n",
        )
    return Shard(place * count + rank, elements * count)


def provenance(program: str, words: Sequence[str], device: str) -> dict[str, Any]:
    """Who made it: command, time (UTC), versions, commit, platform, device, threads."""
    return {
        "command": shlex.join([program, *words]),
        **origin(PACKAGES),
        "platform": sys.platform,
        "device": device,
        "threads": torch.get_num_threads(),
    }


class Work:
    """The chunks of one destination, and how it is published.

    Args:
        destination: the ``--dest`` directory, which does not exist until it is published.
        settings: what the chunks depend on, by flag or file.
        filters: what only the published result depends on, by flag without dashes.
    """

    def __init__(self, destination: str, settings: dict[str, Any], filters: dict[str, Any]) -> None:
        self.destination = destination
        self.made_with = {"settings": settings, "filters": filters}
        self.digest = digest_of(settings)
        self.home = destination + ".parts"
        self.directory = os.path.join(self.home, self.digest[:16])
        self.overwrite = False

    def path(self, name: str) -> str:
        """A file of the unfinished work."""
        return os.path.join(self.directory, name)

    @contextlib.contextmanager
    def saving(self, name: str) -> Iterator[IO[bytes]]:
        """Write a chunk whole."""
        if not os.path.isfile(self.path(SETTINGS)):
            write_json(self.path(SETTINGS), self.made_with["settings"], make_folder=True)
        with replacing(self.path(name), "wb", make_folder=True) as stream:
            yield stream

    def unfinished(self) -> int:
        """How many chunks are not finished yet."""
        raise NotImplementedError

    def build(self, folder: str) -> dict[str, Any]:
        """Write all files into a folder; returns their part of the report."""
        raise NotImplementedError

    def completed(self) -> dict[str, Any] | None:
        """The report of what these settings already made, or None."""
        path = os.path.join(self.destination, REPORT)
        report = read_json(path) if os.path.isfile(path) else {}
        filters = report.get("filters", {})
        same = (report.get("digest"), filters) == (self.digest, self.made_with["filters"])
        return report if same else None

    def check_destination(self, overwrite: bool) -> None:
        """Refuse a destination that holds something else; with ``overwrite``, discard the parts of
        other settings, unless a process is at work there."""
        self.overwrite, there = overwrite, self.destination
        report = os.path.join(there, REPORT)
        if os.path.isfile(report):
            if self.completed() is None and not overwrite:
                raise _refusal(there, _flags(read_json(report)), _flags(self.made_with))
        elif os.path.lexists(there) and (not os.path.isdir(there) or os.listdir(there)):
            problem = f"{there} exists and was not made by this command"
            raise UsageError("--dest", problem, "choose another")
        for before in sorted(glob.glob(os.path.join(glob.escape(self.home), "*", SETTINGS))):
            folder = os.path.dirname(before)
            if folder == self.directory:
                continue
            if not overwrite:
                raise _refusal(self.home, read_json(before), self.made_with["settings"])
            for lock in glob.glob(os.path.join(glob.escape(folder), "shard-*")):
                with alone(lock, f"--dest: {self.destination}"):
                    pass
            shutil.rmtree(folder, ignore_errors=True)

    def run(
        self, shard: Shard, work: Callable[[], None], merge: bool = False
    ) -> dict[str, Any] | None:
        """Do a shard's part; the process that finishes the last chunk publishes.

        Args:
            work: makes the shard's chunks that are not finished.
            merge: refuse to end without publishing.

        Returns:
            the report, or None while chunks of other shards are not finished.
        """
        done = self.completed()
        if done is not None:
            logger.info("%s is complete already; nothing to do", self.destination)
            self._remove_parts()
            return done
        try:
            os.makedirs(os.path.dirname(self.destination), exist_ok=True)
        except OSError as error:
            problem = f"cannot write {self.home} ({error.strerror})"
            raise UsageError("--dest", problem, "choose a folder you may write beside") from error
        missing = 0
        try:
            lock = self.path(f"shard-{shard.rank}-of-{shard.world}.lock")
            with alone(lock, f"--dest: {self.destination}"):
                try:
                    work()
                    missing = self.unfinished()
                    if not missing:
                        self._publish()
                except (OSError, ValueError):
                    # Another process may have published, and removed the parts.
                    if self.completed() is None:
                        raise
            done = self.completed()
            if done is not None:
                self._remove_parts()
        finally:
            self._remove_if_empty()
        if done is None and merge:
            problem = f"{missing} chunks of {self.destination} are not finished"
            remedy = "run every shard of the same command again without it, which skips others"
            raise UsageError("--merge", problem, remedy)
        if done is None:
            logger.info("done here; %d chunks of other shards are not finished yet", missing)
        return done

    def _publish(self) -> None:
        building = self.path("merged-" + own_suffix())
        try:
            os.makedirs(building)
            about = self.build(building)
            files = {}
            for name in sorted(os.listdir(building)):
                sync(os.path.join(building, name))
                files[name] = sha256(os.path.join(building, name))
            report = {"digest": self.digest, **self.made_with, **about, "files": files}
            write_json(os.path.join(building, REPORT), report)
            self.check_destination(self.overwrite)  # others may have published meanwhile
            if self.completed() is None and os.path.isfile(os.path.join(self.destination, REPORT)):
                # The old result is deleted together with the parts.
                os.rename(self.destination, self.path("replaced-" + own_suffix()))
            os.rename(building, self.destination)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        sync(os.path.dirname(self.destination))

    def _remove_parts(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        for folder in (self.directory, self.home):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def _refusal(where: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> UsageError:
    """The error for results at ``where`` that other settings made; names each that differs."""
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    changed = ", ".join(f"{name}: was {before.get(name)}, now is {now.get(name)}" for name in names)
    return UsageError(
        "--dest",
        f"{where} was made with other settings: {changed}",
        "repeat those settings to continue it, give it up by --overwrite, or choose another --dest",
    )


def _flags(report: Mapping[str, Any]) -> dict[str, Any]:
    """All settings in a report, by flag."""
    filters = {"--" + k.replace("_", "-"): v for k, v in report.get("filters", {}).items()}
    return {**report.get("settings", {}), **filters}
