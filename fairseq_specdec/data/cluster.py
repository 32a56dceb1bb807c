"""Distillation over a Ray cluster: workers hold the teacher, the driver hands out chunks and keeps
what they return.

Workers read the corpus and the teacher from the driver's paths; only the driver writes. Another is
started for a worker that dies, where the cluster has room, and its chunk goes to the next free one.
"""

import argparse
import collections
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq import utils

from fairseq_specdec.errors import UsageError

from ..io.printable import flat_message
from ..io.progress import Counter
from .chunks import DistilledChunks, Hypotheses
from .job import Job, job_of, load
from .plan import plan_from
from .settings import provenance
from .teacher import decoded

logger = logging.getLogger(__name__)
RETRIES = 3  # of a chunk, or of loading the teacher, after a worker died


class Worker:
    """An actor: one teacher, on the machine that Ray chooses."""

    def prepare(
        self, args: argparse.Namespace, folder: str, digest: str, words: Sequence[str]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Load teacher and corpus; the plan's arrays, and the provenance of this process.

        Args:
            folder: the driver's, where relative paths begin.
            digest: of the driver's settings.
            words: the driver's command line.
        """
        where = f"--ray: on {socket.gethostname()}"
        try:
            os.chdir(folder)
            utils.import_user_module(args)
            job = job_of(args)
        except (ValueError, OSError) as error:
            remedy = "every machine needs the corpus and the checkpoints at the same paths"
            raise UsageError(where, error, remedy) from error
        if job.chunks.digest != digest:
            raise UsageError("", f"{where} the corpus or a checkpoint is another than the driver's")
        self.teacher, self.dataset, self.plan = load(job, args)
        if not self.teacher.cuda:
            torch.set_num_threads(1)  # the core that Ray reserves
        return self.plan.arrays(), provenance(words, self.teacher.device_name)

    def decode(self, chunk: int) -> tuple[Hypotheses, float]:
        """The teacher's output, and the seconds that it took."""
        chunks = decoded(self.teacher, self.dataset, self.plan, [chunk], lambda sentences: None)
        ((_, hypotheses, seconds),) = chunks
        return hypotheses, seconds


def decode_chunks(job: Job, args: argparse.Namespace, words: Sequence[str]) -> None:
    """Decode and save a job's unfinished chunks."""
    ray = _joined(args)
    resources = ray.cluster_resources()
    unit = "GPU" if resources.get("GPU") and not args.cpu else "CPU"
    count = args.ray_workers or max(1, int(resources.get(unit, 1)))
    actor = ray.remote(num_cpus=1, num_gpus=int(unit == "GPU"))(Worker)
    driver = _Driver(ray, job.chunks, actor, (args, os.getcwd(), job.chunks.digest, words))
    try:
        driver.run(count)
    finally:
        driver.end()


def leave() -> None:
    """Leave the cluster, and end it where this process started it."""
    if "ray" in sys.modules:  # else it was refused before it was joined
        sys.modules["ray"].shutdown()


def _joined(args: argparse.Namespace) -> Any:
    """Ray, which is connected to the cluster that ``--ray`` names."""
    import ray

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
    if args.ray == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        cpus = max(args.ray_workers or 1, os.cpu_count() or 1)
        settings.update(num_cpus=cpus, include_dashboard=False, _node_ip_address="127.0.0.1")
    try:
        _reach(args.ray)
        ray.init(address=args.ray, ignore_reinit_error=True, **settings)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UsageError(
            f"--ray {args.ray}",
            f"no cluster answers ({flat_message(error, 200)})",
            "start one by `ray start --head`, or give --ray without an address",
        ) from error
    return ray


def _reach(address: str) -> None:
    """Fail at once where nobody listens: Ray asks for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


class _Driver:
    """Which worker is asked what: a chunk, or (None) to load the teacher."""

    def __init__(
        self, ray: Any, chunks: DistilledChunks, actor: Any, given: tuple[Any, ...]
    ) -> None:
        self.ray, self.chunks, self.actor, self.given = ray, chunks, actor, given
        self.asked: dict[Any, tuple[Any, int | None]] = {}
        self.free: list[Any] = []
        self.todo: collections.deque[int] = collections.deque()
        self.unfinished: set[int] = set()
        self.deaths: dict[int | None, int] = collections.defaultdict(int)
        self.loaded = 0

    def run(self, count: int) -> None:
        """Decode and save what is not finished, with so many workers."""
        for _ in range(count):
            self._start()
        while not self.loaded:
            self._take()
        plan = self.chunks.plan()
        sizes = [len(plan.indices(chunk)) for chunk in range(len(plan.chunk_ends))]
        self.todo.extend(self.chunks.unfinished())
        self.unfinished.update(self.todo)
        everything, planned = sum(sizes), sum(sizes[chunk] for chunk in self.todo)
        logger.info("%d of %d sentences to decode, over Ray", planned, everything)
        with Counter(everything, "sentence", logger, initial=everything - planned) as progress:
            while self.unfinished:
                self._hand_out()
                finished = self._take()
                progress.add(0 if finished is None else sizes[finished])

    def end(self) -> None:
        """End all workers."""
        for worker in [*self.free, *(worker for worker, _ in self.asked.values())]:
            self.ray.kill(worker)

    def _start(self) -> None:
        worker = self.actor.remote()
        self.asked[worker.prepare.remote(*self.given)] = (worker, None)

    def _hand_out(self) -> None:
        while self.todo and self.free:
            worker, chunk = self.free.pop(), self.todo.popleft()
            self.asked[worker.decode.remote(chunk)] = (worker, chunk)

    def _take(self) -> int | None:
        """Wait for one answer and save it; returns the chunk, if it was one."""
        errors = self.ray.exceptions
        (ready,), _ = self.ray.wait(list(self.asked), num_returns=1)
        worker, chunk = self.asked.pop(ready)
        try:
            answer = self.ray.get(ready)
        except errors.RayTaskError as error:  # raised by our own code over there
            raise (error.cause if isinstance(error.cause, ValueError) else error) from error
        except errors.RayError as error:
            self._replace(worker, chunk, error)
            return None
        self.free.append(worker)
        if chunk is None:
            self._agree(*answer)
        else:
            self.chunks.write(chunk, *answer)
            self.unfinished.remove(chunk)
        return chunk

    def _agree(self, arrays: dict[str, np.ndarray], run: dict[str, Any]) -> None:
        self.chunks.agree_on(plan_from(arrays))
        self.chunks.note_run(self.loaded, run)
        self.loaded += 1
        self.deaths[None] = 0

    def _replace(self, worker: Any, chunk: int | None, error: Exception) -> None:
        """Start another worker for one that died."""
        self.ray.kill(worker)
        self.deaths[chunk] += 1
        reason = flat_message(error, 300)
        if self.deaths[chunk] > RETRIES:
            raise UsageError(
                "--ray",
                f"{'loading the teacher' if chunk is None else f'chunk {chunk}'} ended "
                f"{self.deaths[chunk]} workers ({reason})",
                "is their memory enough? Ray's logs are in /tmp/ray/session_latest/logs of "
                "their machines",
            )
        logger.warning("--ray: a worker died, another is started (%s)", reason)
        if chunk is not None:
            self.todo.appendleft(chunk)
        self._start()
