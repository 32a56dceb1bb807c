"""Data-parallel training on machines without a GPU."""

import os
from typing import Any
from unittest import mock

import torch
from fairseq.models import distributed_fairseq_model
from torch.nn import parallel

from .patch import fixes


@fixes("fairseq.distributed.utils.infer_init_method")
def torchrun_without_gpu(original: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Make one training of ``torchrun``'s processes where there is no GPU.

    Fault: fairseq takes its world size from the number of GPUs, so that on a machine without any
    ``torchrun --nproc_per_node 2 fairseq-train --cpu`` silently runs two independent trainings over
    one another's checkpoints; given one, it divides by the number of GPUs. Versions: all.

    Fix: the world size is torchrun's, and the backend gloo where the default (nccl) cannot run.
    """
    launched = all(name in os.environ for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if launched and world_size > 1 and not torch.cuda.is_available():
        if cfg.distributed_init_method is None and cfg.distributed_world_size == 1:
            cfg.distributed_world_size = world_size
        if cfg.distributed_backend == "nccl":
            cfg.distributed_backend = "gloo"
    return original(cfg, *args, **kwargs)


@fixes("fairseq.distributed.utils._infer_torch_distributed_launch_init")
def _infer_launch_init(original: Any, *args: Any, **kwargs: Any) -> Any:
    if torch.cuda.is_available():
        return original(*args, **kwargs)
    with mock.patch.object(torch.cuda, "device_count", lambda: 1):  # every rank is device 0
        return original(*args, **kwargs)


@fixes()
def ddp_without_devices() -> None:
    """Let ``--ddp-backend pytorch_ddp`` wrap a model that is on the CPU.

    Fault: fairseq passes ``device_ids`` always, which torch refuses for a module on the CPU
    ("DistributedDataParallel device_ids ... only work with single-device ... GPU modules").
    Versions: all.
    """
    distributed_fairseq_model.DistributedDataParallel = DistributedDataParallel


class DistributedDataParallel(parallel.DistributedDataParallel):  # named as torch's
    def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        if all(parameter.device.type == "cpu" for parameter in module.parameters()):
            kwargs.update(device_ids=None, output_device=None)
        super().__init__(module, *args, **kwargs)
