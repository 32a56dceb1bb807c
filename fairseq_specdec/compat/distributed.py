"""Data-parallel training on machines without a GPU."""

import functools
import logging
import os
from typing import Any
from unittest import mock

import torch
from torch.nn import parallel

from fairseq_specdec.errors import UsageError

from .patch import wrap_once

logger = logging.getLogger(__name__)


def torchrun_without_gpu() -> None:
    """Make one training of ``torchrun``'s processes where there is no GPU.

    Fault: fairseq takes its world size from the number of GPUs, so that on a machine without any
    ``torchrun --nproc_per_node 2 fairseq-train --cpu`` silently runs two independent trainings over
    one another's checkpoints; given one, it divides by the number of GPUs. Versions: all.

    Fix: the world size is torchrun's, and the backend gloo where the default (nccl) cannot run.
    ``--distributed-world-size`` without torchrun ("have 0 available devices") names torchrun.
    """
    from fairseq.distributed import utils as distributed_utils

    fix = "torchrun_without_gpu"
    wrap_once(distributed_utils, "infer_init_method", fix, _infer_init_method)
    name = "_infer_torch_distributed_launch_init"
    if hasattr(distributed_utils, name):
        wrap_once(distributed_utils, name, fix, _infer_launch_init)


def _infer_init_method(original: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    launched = all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if launched and world_size > 1 and not torch.cuda.is_available():
        if cfg.distributed_init_method is None and cfg.distributed_world_size == 1:
            logger.info("--distributed-world-size: %d, as torchrun started", world_size)
            cfg.distributed_world_size = world_size
        if cfg.distributed_backend == "nccl":
            logger.info("--distributed-backend: gloo, since there is no GPU")
            cfg.distributed_backend = "gloo"
    elif _needs_launcher(cfg):
        raise UsageError(
            f"--distributed-world-size {cfg.distributed_world_size}",
            "without a GPU, fairseq starts no processes",
            f"begin the command with torchrun --nproc_per_node {cfg.distributed_world_size} "
            "$(command -v fairseq-train)",
        )
    return original(cfg, *args, **kwargs)


def _needs_launcher(cfg: Any) -> bool:
    """Whether fairseq would look for GPUs to start a process on each."""
    return (
        cfg.distributed_world_size > 1
        and not torch.cuda.is_available()
        and not cfg.tpu
        and not cfg.distributed_no_spawn
        and cfg.distributed_port <= 0  # else under Slurm
        and cfg.distributed_init_method is None
    )


def _infer_launch_init(original: Any, *args: Any, **kwargs: Any) -> Any:
    if torch.cuda.is_available():
        return original(*args, **kwargs)
    with mock.patch.object(torch.cuda, "device_count", lambda: 1):  # every rank is device 0
        return original(*args, **kwargs)


def ddp_without_devices() -> None:
    """Let ``--ddp-backend pytorch_ddp`` wrap a model that is on the CPU.

    Fault: fairseq passes ``device_ids`` always, which torch refuses for a module on the CPU
    ("DistributedDataParallel device_ids ... only work with single-device ... GPU modules").
    Versions: all.
    """
    from fairseq.models import distributed_fairseq_model

    if distributed_fairseq_model.DistributedDataParallel is parallel.DistributedDataParallel:
        distributed_fairseq_model.DistributedDataParallel = DistributedDataParallel


class DistributedDataParallel(parallel.DistributedDataParallel):  # named as torch's
    __doc__ = parallel.DistributedDataParallel.__doc__

    @functools.wraps(parallel.DistributedDataParallel.__init__)  # type: ignore[misc]
    def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        # No device ids for a module on the CPU.
        if all(parameter.device.type == "cpu" for parameter in module.parameters()):
            kwargs.update(device_ids=None, output_device=None)
        super().__init__(module, *args, **kwargs)
