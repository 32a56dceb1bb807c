"""Distillation over a Ray cluster: workers hold the teacher, the driver hands out chunks and keeps
what they return.

Workers read the corpus and the teacher from the driver's paths; only the driver writes. Another is
started for a worker that dies, where the cluster has room, and its chunk goes to the next free one.
"""

import argparse
import collections
import importlib.util
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

import torch
from fairseq import utils

from fairseq_specdec.errors import UsageError

from ..commands.own import load_plugin
from ..io.flag_values import AT_LEAST_1, add_flag
from ..io.progress import Counter
from .chunks import Distillation, Part
from .plan import Plan
from .teacher import Hypotheses
from .work import provenance

logger = logging.getLogger(__name__)
RETRIES = 3  # of a chunk, or of loading the teacher, after a worker died


def add_cluster_flags(group: Any) -> None:
    """Whose workers distil."""
    add_flag(group, "--ray", "hand chunks to the workers of a Ray cluster: HOST:6379, auto, or "
             "local, which starts one on this machine; needs the extra ray", nargs="?",
             const="local", metavar="ADDRESS",
             otherwise="off; without an ADDRESS, local")  # fmt: skip
    add_flag(group, "--ray-workers", "teachers over the cluster", AT_LEAST_1,
             otherwise="one for each GPU, or each CPU core where there is none or with "
             "--cpu")  # fmt: skip


def check_cluster(args: argparse.Namespace) -> None:
    """Refuse what :func:`add_cluster_flags` cannot honour."""
    if args.ray is None:
        if args.ray_workers:
            raise UsageError("--ray-workers", "is the number of --ray's workers", "give --ray too")
    elif os.path.isdir(args.ray):
        raise UsageError(f"--ray {args.ray}", "is a folder", "put it before --ray")
    elif importlib.util.find_spec("ray") is None:
        raise UsageError("--ray", "needs ray", "pip install 'fairseq-specdec[ray]'")


class Worker:
    """An actor: one teacher, on the machine that Ray chooses."""

    def prepare(
        self, args: argparse.Namespace, folder: str, digest: str, words: Sequence[str]
    ) -> Plan:
        """Load teacher and corpus.

        Args:
            folder: the driver's, where relative paths begin.
            digest: of the driver's settings.
            words: the driver's command line.
        """
        where = f"--ray: on {socket.gethostname()}"
        remedy = "every machine needs the corpus and the checkpoints at the same paths"
        try:
            load_plugin()
            os.chdir(folder)
            utils.import_user_module(args)
            self.part = Part(args)
        except (ValueError, OSError) as error:
            raise UsageError(where, error, remedy) from error
        if self.part.digest != digest:
            raise UsageError(
                where, "the corpus or a checkpoint is another than the driver's", remedy
            )
        self.teacher, self.dataset = self.part.load()
        if not self.teacher.cuda:
            torch.set_num_threads(1)  # the core that Ray reserves
        self.run = provenance("specdec-distill", words, self.teacher.device_name)
        self.run["host"] = socket.gethostname()
        return self.part.planned

    def decode(self, chunk: int) -> tuple[Hypotheses, float, dict[str, Any]]:
        """The teacher's output, the seconds that it took, and the provenance of this process."""
        plan = self.part.planned
        made = self.teacher.decoded(self.dataset, plan, [chunk], lambda sentences: None)
        ((_, hypotheses, seconds),) = made
        return hypotheses, seconds, self.run


def decode(job: Distillation, args: argparse.Namespace, words: Sequence[str]) -> None:
    """Decode and save a job's unfinished chunks."""
    ray = _joined(args)
    resources = ray.cluster_resources()
    unit = "GPU" if resources.get("GPU") and not args.cpu else "CPU"
    count = args.ray_workers or max(1, int(resources.get(unit, 1)))
    actor = ray.remote(num_cpus=1, num_gpus=int(unit == "GPU"))(Worker)
    for part in job.parts:
        driver = _Driver(ray, job, part, actor, (part.args, os.getcwd(), part.digest, words))
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
        host, colon, port = args.ray.rpartition("://")[2].rpartition(":")
        if colon:  # fail at once where nobody listens: Ray asks for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=args.ray, ignore_reinit_error=True, **settings)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UsageError(
            f"--ray {args.ray}",
            f"no cluster answers ({str(error)[:200]})",
            "start one by `ray start --head`, or give --ray without an address",
        ) from error
    return ray


class _Driver:
    """Which worker is asked what: a chunk, or (None) to load the teacher."""

    def __init__(
        self, ray: Any, job: Distillation, part: Part, actor: Any, given: tuple[Any, ...]
    ) -> None:
        self.ray, self.job, self.part = ray, job, part
        self.actor, self.given = actor, given
        self.asked: dict[Any, tuple[Any, int | None]] = {}
        self.free: list[Any] = []
        self.loaded = False
        self.deaths: dict[int | None, int] = collections.defaultdict(int)

    def run(self, count: int) -> None:
        """Decode and save what is not finished, with so many workers."""
        for _ in range(count):
            self._start()
        while not self.loaded:
            self._take()
        plan = self.part.planned
        self.todo = collections.deque(self.job.todo(self.part))
        unfinished = len(self.todo)
        everything = sum(map(plan.size, range(len(plan.chunks))))
        planned = sum(map(plan.size, self.todo))
        logger.info("%d of %d sentences to decode, over Ray", planned, everything)
        with Counter(everything, "sentence", logger, initial=everything - planned) as progress:
            while unfinished:
                while self.todo and self.free:
                    worker, chunk = self.free.pop(), self.todo.popleft()
                    self.asked[worker.decode.remote(chunk)] = (worker, chunk)
                finished = self._take()
                if finished is not None:
                    unfinished -= 1
                    progress.add(plan.size(finished))

    def end(self) -> None:
        """End all workers."""
        for worker in [*self.free, *(worker for worker, _ in self.asked.values())]:
            self.ray.kill(worker)

    def _start(self) -> None:
        worker = self.actor.remote()
        self.asked[worker.prepare.remote(*self.given)] = (worker, None)

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
            self._agree(answer)
        else:
            self.job.write(self.part, chunk, *answer)
        return chunk

    def _agree(self, plan: Plan) -> None:
        if self.loaded and plan.chunks != self.part.planned.chunks:
            raise UsageError(
                "--ray",
                "one machine cuts the corpus into other batches than another",
                "install the same versions of fairseq and numpy everywhere",
            )
        self.part.plan, self.loaded = plan, True
        self.deaths[None] = 0

    def _replace(self, worker: Any, chunk: int | None, error: Exception) -> None:
        """Start another worker for one that died."""
        self.ray.kill(worker)
        self.deaths[chunk] += 1
        reason = " ".join(str(error).split())[:300]
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
