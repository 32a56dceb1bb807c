"""Data-parallel training on a machine without a GPU."""

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from omegaconf import OmegaConf

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="the fix is for CPU-only machines")


def settings(**given):
    defaults = dict(
        distributed_init_method=None, tpu=False, pipeline_model_parallel=False, device_id=0,
        distributed_world_size=1, distributed_rank=0, distributed_backend="nccl",
        distributed_no_spawn=False, distributed_port=-1,
    )  # fmt: skip
    return OmegaConf.create({**defaults, **given})


@pytest.fixture
def torchrun(monkeypatch):
    values = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "3", "RANK": "2"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@no_gpu
@pytest.mark.parametrize("asked", [1, 3])
def test_torchrun_sets_world_size_rank_and_backend(torchrun, asked):
    cfg = settings(distributed_world_size=asked)
    distributed_utils.infer_init_method(cfg)
    assert (cfg.distributed_world_size, cfg.distributed_rank) == (3, 2)
    assert cfg.distributed_init_method == "env://" and cfg.distributed_no_spawn
    assert cfg.distributed_backend == "gloo" and cfg.device_id == 0


@no_gpu
def test_without_torchrun_nothing_is_distributed(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    cfg = settings()
    distributed_utils.infer_init_method(cfg)
    assert cfg.distributed_init_method is None
    assert (cfg.distributed_world_size, cfg.distributed_backend) == (1, "nccl")


def test_ddp_takes_a_model_on_the_cpu(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = distributed_fairseq_model.DistributedDataParallel(
            torch.nn.Linear(2, 2), device_ids=[0], output_device=0
        )
        assert isinstance(wrapped, torch.nn.parallel.DistributedDataParallel)
        assert wrapped(torch.zeros(1, 2)).shape == (1, 2)
    finally:
        torch.distributed.destroy_process_group()
