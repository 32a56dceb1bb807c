"""Data-parallel training on a machine without a GPU."""

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from omegaconf import OmegaConf

from fairseq_specdec.criterions.blockwise_loss import draw_head

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


@no_gpu
def test_several_processes_need_torchrun(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="--distributed-world-size 2.*torchrun --nproc_per_node 2"):
        distributed_utils.infer_init_method(settings(distributed_world_size=2))


@no_gpu
def test_an_explicit_backend_is_kept(torchrun):
    cfg = settings(distributed_backend="mpi")
    distributed_utils.infer_init_method(cfg)
    assert cfg.distributed_backend == "mpi"


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


@no_gpu
@pytest.mark.parametrize(
    "backend", ["pytorch_ddp", pytest.param("legacy_ddp", marks=pytest.mark.slow)]
)
def test_two_processes_resume_one_training(fairseq_command, trained, tmp_path, backend):
    """Rank 0 sends the checkpoint, numpy arrays and all, to rank 1; both make one training."""
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    log, _ = fairseq_command(
        "train", *trained.arguments, "--ddp-backend", backend, "--save-dir", tmp_path,
        "--restore-file", trained.checkpoint, "--max-epoch", 2, launcher=launcher,
    )  # fmt: skip
    assert "training on 2 devices" in log
    assert "Loaded checkpoint" in log and "epoch 002" in log
    assert log.count("done training") == 1  # only the first process logs
    assert (tmp_path / "checkpoint_last.pt").is_file()


@pytest.mark.slow
@no_gpu
@pytest.mark.parametrize("backend", ["pytorch_ddp", "legacy_ddp"])
def test_two_processes_train_a_blockwise_model(fairseq_command, trained, tmp_path, backend):
    """The base is trained too: head 1, the identity, is drawn among the others."""
    drawn = [draw_head([1, 2], 1, update, 0) for update in range(6)]
    assert set(drawn) == {1, 2}
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    log, _ = fairseq_command(
        "train", *trained.arguments, "--arch", "blockwise_transformer_tiny", "--block-size", 2,
        "--criterion", "blockwise_loss", "--ddp-backend", backend, "--save-dir", tmp_path,
        "--batch-size", 10, "--max-update", 6, "--seed", 1, launcher=launcher,
    )  # fmt: skip
    assert "training on 2 devices" in log and "num_updates 6" in log
    assert (tmp_path / "checkpoint_last.pt").is_file()
