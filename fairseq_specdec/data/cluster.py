"""Distillation over a Ray cluster: workers hold the teacher, the driver hands out chunks and keeps
what they return.

Workers read the corpus and the teacher from the driver's paths; only the driver writes. Ray starts
another for a worker that dies, where the cluster has room, and gives it the same chunk.
"""

import argparse
import importlib.util
import logging
import os
import socket
from collections.abc import Sequence
from typing import Any

import torch
from fairseq import utils

from fairseq_specdec.errors import UsageError

from ..commands.own import load_plugin
from ..io.flag_values import AT_LEAST_1, add_flag
from ..io.progress import Counter
from .part import Part, Plan
from .teacher import Batches, Hypotheses
from .work import Distillation

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
    if args.ray_workers and args.ray is None:
        raise UsageError("--ray-workers", "is the number of --ray's workers", "give --ray too")
    if args.ray and importlib.util.find_spec("ray") is None:
        raise UsageError("--ray", "needs ray", "pip install 'fairseq-specdec[ray]'")


class Worker:
    """An actor: one teacher, on the machine that Ray chooses. It is loaded at the first call, and
    again where Ray starts the actor anew.

    Args:
        folder: the driver's, where relative paths begin.
        digest: of the driver's settings.
    """

    def __init__(self, args: argparse.Namespace, folder: str, digest: str) -> None:
        self.given = args, folder, digest
        self.part: Part | None = None

    def plan(self) -> Plan:
        """Load teacher and corpus, where they are not."""
        if self.part is not None:
            return self.part.plan
        args, folder, digest = self.given
        try:
            load_plugin()
            os.chdir(folder)
            utils.import_user_module(args)
            part = Part(args)
            if part.digest != digest:
                raise ValueError("the corpus or a checkpoint is another than the driver's")
        except (ValueError, OSError) as error:
            remedy = "every machine needs the corpus and the checkpoints at the same paths"
            raise UsageError(f"--ray: on {socket.gethostname()}", error, remedy) from error
        self.teacher, self.dataset = part.load()
        if not self.teacher.cuda:
            torch.set_num_threads(1)  # the core that Ray reserves
        self.part = part
        return part.plan

    def decode(self, chunk: int, batches: Batches) -> tuple[int, Hypotheses]:
        """The chunk and the teacher's output."""
        self.plan()
        (hypotheses,) = self.teacher.decoded(self.dataset, [batches], lambda _: None)
        return chunk, hypotheses


def decode(job: Distillation, args: argparse.Namespace) -> None:
    """Decode and save a job's unfinished chunks; leave the cluster, which ends where this process
    started it."""
    ray = _joined(args)
    resources = ray.cluster_resources()
    unit = "GPU" if resources.get("GPU") and not args.cpu else "CPU"
    count = args.ray_workers or max(1, int(resources.get(unit, 1)))
    retries = {"max_restarts": -1, "max_task_retries": RETRIES}
    actor = ray.remote(num_cpus=1, num_gpus=int(unit == "GPU"), **retries)(Worker)
    try:
        for part in job.parts:
            given = (part.args, os.getcwd(), part.digest)
            workers = [actor.remote(*given) for _ in range(count)]
            try:
                _decode_part(ray, job, part, workers)
            finally:
                for worker in workers:
                    ray.kill(worker)
    except ray.exceptions.RayTaskError as error:  # raised by our own code over there
        raise (error.cause if isinstance(error.cause, ValueError) else error) from error
    finally:
        ray.shutdown()


def _decode_part(ray: Any, job: Distillation, part: Part, workers: Sequence[Any]) -> None:
    """Hand the chunks of one pair to the workers as they get free. The first to be ready cuts the
    corpus into chunks for all."""
    asked = {worker.plan.remote(): worker for worker in workers}
    (ready,), _ = ray.wait(list(asked))
    part.plan = ray.get(ready)
    todo = job.todo(part)
    left = len(todo)
    with Counter(sum(map(part.plan.size, todo)), "sentence", logger) as progress:
        while left:
            (ready,), _ = ray.wait(list(asked))
            worker, answer = asked.pop(ready), ray.get(ready)
            if not isinstance(answer, Plan):
                job.write(part, *answer)
                left -= 1
                progress.add(part.plan.size(answer[0]))
            if todo:
                chunk = todo.pop(0)
                asked[worker.decode.remote(chunk, part.plan.chunks[chunk])] = worker


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
        if colon:  # fail at once where nobody listens: Ray retries for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=args.ray, ignore_reinit_error=True, **settings)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise UsageError(
            f"--ray {args.ray}",
            f"no cluster answers ({str(error)[:200]})",
            "start one by `ray start --head`, or give --ray without an address",
        ) from error
    return ray
