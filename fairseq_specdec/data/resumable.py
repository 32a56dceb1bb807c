"""Work that is saved in chunks and resumed, by one process or several, and then published whole.

``OUT.parts`` beside the destination holds the locks of those at work, and a folder for each set of
settings (``OUT.parts/<digest>``): manifest, finished chunks, the provenance of each process. Chunks
do not depend on the number of shards: a run may be resumed with another number of processes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fairseq_specdec.errors import UsageError

from ..commands.own import again, log_to_stderr, reporting
from ..io.atomic import own_suffix, read_json, sync, write_json
from ..io.flag_values import AT_LEAST_1, add_flag
from ..io.provenance import digest_of, sha256
from .locks import at_work, guarded, remove_unless_at_work
from .plan import Shard

logger = logging.getLogger(__name__)
MANIFEST = "manifest.json"


def add_work_flags(group: Any, unit: str, chunk_size: int) -> None:
    """The flags that divide the work."""
    add = functools.partial(add_flag, group)
    add("--chunk-size", f"{unit} that are saved at once; a kill loses at most so many per process",
        AT_LEAST_1, chunk_size)  # fmt: skip
    add("--shard", "be process I (from 0) of N", metavar="I/N",
        otherwise="as torchrun or a Slurm array says, else alone")  # fmt: skip
    add("--merge", "only publish what finished processes left; the last one to finish does so by "
        "itself, unless it was killed in between", default=False)  # fmt: skip
    add("--overwrite", "discard results at --dest that were made with other settings",
        default=False)  # fmt: skip


@contextlib.contextmanager
def resumable_command(program: str, arguments: Sequence[str] | None = None) -> Iterator[list[str]]:
    """Log to stderr; end with one line after a mistake, and after Ctrl-C with how to go on."""
    log_to_stderr("%(asctime)s | %(levelname)s | %(name)s | %(message)s")

    def saved(words: Sequence[str]) -> str:
        return f"finished chunks are kept in DEST.parts; go on with: {again(program, words)}"

    with reporting(program, arguments, saved) as words:
        yield words


def refuse(where: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> ValueError:
    """The error for results at ``where`` that other settings made; names each that differs."""
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    lines = [f"{name}: was {before.get(name)}, now is {now.get(name)}" for name in names]
    return ValueError(
        "--dest: {} was made with other settings:\n  {}\nRepeat those settings to continue it, "
        "give it up by --overwrite, or choose another --dest".format(where, "\n  ".join(lines))
    )


def _flags(report: Mapping[str, Any]) -> dict[str, Any]:
    """All settings in a report, by flag."""
    filters = {"--" + k.replace("_", "-"): v for k, v in report.get("filters", {}).items()}
    return {**report.get("settings", {}), **filters}


class ResumableJob:
    """The chunks of one destination, and how it is published.

    Args:
        destination: the ``--dest`` directory, which does not exist until it is published.
        report: file in it that records how it was made.
        settings: what the chunks depend on, by flag or file.
        filters: what only the published result depends on, by flag without dashes.
    """

    def __init__(
        self,
        destination: str,
        report: str,
        settings: dict[str, Any],
        filters: dict[str, Any] | None = None,
    ) -> None:
        self.destination, self.report = destination, report
        self.settings, self.filters = settings, filters or {}
        self.digest = digest_of(settings)
        self.home = destination + ".parts"
        self.directory = os.path.join(self.home, self.digest[:16])

    def path(self, name: str) -> str:
        """A file of the unfinished work."""
        return os.path.join(self.directory, name)

    def unfinished(self) -> list[int]:
        """The chunks that are not finished yet."""
        raise NotImplementedError

    def completed(self) -> dict[str, Any] | None:
        """The report of what these settings already made, or None."""
        path = os.path.join(self.destination, self.report)
        if not os.path.isfile(path):
            return None
        report = read_json(path)
        same = (report.get("digest"), report.get("filters", {})) == (self.digest, self.filters)
        return report if same else None

    def check_destination(self, overwrite: bool) -> None:
        """Refuse a destination that holds something else."""
        report = os.path.join(self.destination, self.report)
        if os.path.isfile(report):
            if self.completed() is None and not overwrite:
                mine = _flags({"settings": self.settings, "filters": self.filters})
                raise refuse(self.destination, _flags(read_json(report)), mine)
        elif os.path.lexists(self.destination) and not (
            os.path.isdir(self.destination) and not os.listdir(self.destination)
        ):
            raise UsageError(
                "--dest",
                f"{self.destination} exists and was not made by this command",
                "choose another",
            )
        for name in sorted(os.listdir(self.home)) if os.path.isdir(self.home) else []:
            folder = os.path.join(self.home, name)
            if folder == self.directory or not os.path.isfile(os.path.join(folder, MANIFEST)):
                continue
            made = set(os.listdir(folder)) - {MANIFEST}  # nothing: a mistake ended it
            if made and not overwrite:
                before = read_json(os.path.join(folder, MANIFEST))
                raise refuse(self.home, before.get("settings", {}), self.settings)

    def note_run(self, rank: int, run: dict[str, Any]) -> None:
        """Keep the provenance of one process."""
        write_json(self.path(f"run-{rank:05d}-{own_suffix()}.json"), run)

    def runs(self) -> list[dict[str, Any]]:
        """The provenance of every process that worked here."""
        names = sorted(name for name in os.listdir(self.directory) if name.startswith("run-"))
        return [read_json(self.path(name)) for name in names if name.endswith(".json")]

    def run(
        self, shard: Shard, work: Callable[[], None] | None, build: Callable[[str], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Do a shard's part; the process that finishes the last chunk publishes.

        Args:
            shard: which part of the chunks.
            work: makes those of the shard that are not finished; None: nothing is made.
            build: writes all files into a folder, and returns their part of the report.

        Returns:
            the report, or None while chunks of other shards are not finished.
        """
        done = self.completed()
        if done is not None:
            logger.info("%s is complete already; nothing to do", self.destination)
        else:
            with at_work(self.destination, self.home, self.digest, shard):
                done = self.completed() or self._work(work, build)
        if done is not None:
            remove_unless_at_work(self.home)
        return done

    def _work(
        self, work: Callable[[], None] | None, build: Callable[[str], dict[str, Any]]
    ) -> dict[str, Any] | None:
        os.makedirs(self.directory, exist_ok=True)
        if work is not None:
            if not os.path.isfile(self.path(MANIFEST)):
                write_json(self.path(MANIFEST), {"settings": self.settings, "digest": self.digest})
            work()
            missing = len(self.unfinished())
            if missing:
                logger.info("done here; %d chunks of other shards are not finished yet", missing)
                return None
        with guarded(self.home):  # several may have seen the last chunk finished
            return self.completed() or self._publish(build)

    def _publish(self, build: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        building = self.path("merged-" + own_suffix())
        try:
            os.makedirs(building)
            about = build(building)
            names = sorted(os.listdir(building))
            files = {name: sha256(os.path.join(building, name)) for name in names}
            made_with = {"digest": self.digest, "settings": self.settings}
            made_with.update({"filters": self.filters} if self.filters else {})
            written = {**made_with, **about, "runs": self.runs(), "files": files}
            write_json(os.path.join(building, self.report), written)
            if os.path.isfile(os.path.join(self.destination, self.report)):
                # Only --overwrite comes here; the old result is deleted together with the parts.
                os.rename(self.destination, self.path("replaced-" + own_suffix()))
            os.rename(building, self.destination)
        except (OSError, ValueError):
            shutil.rmtree(building, ignore_errors=True)
            raise
        sync(os.path.dirname(self.destination))
        return written
