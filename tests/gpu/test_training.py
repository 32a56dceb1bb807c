"""A training step of every model and criterion on a GPU; data-parallel training on two."""

import subprocess
import sys

import pytest
import torch
from device_guard import on_device
from device_training import CASES, batch

import fairseq_specdec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_a_step(case, half):
    torch.manual_seed(0)
    make, criterion = CASES[case]
    trained, judge, given = make(), criterion(), on_device(batch())
    (trained.half() if half else trained).to("cuda").train()
    trained.set_num_updates(3)
    loss, _, _ = judge(trained, given)
    (loss * (128.0 if half else 1.0)).backward()
    assert bool(torch.isfinite(loss)) and loss.is_cuda
    assert all(p.grad is not None for p in trained.parameters() if p.requires_grad)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_train_one_model(reversal_data, tmp_path):
    command = [
        sys.executable, "-m", "fairseq_cli.train", reversal_data, "--task", "translation_specdec",
        "--user-dir", fairseq_specdec.__path__[0], "--arch", "blockwise_transformer_tiny",
        "--criterion", "blockwise_loss", "--optimizer", "adam", "--lr", 1e-3, "--max-update", 6,
        "--max-sentences", 8, "--ddp-backend", "pytorch_ddp", "--distributed-world-size", 2,
        "--save-dir", tmp_path,
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "checkpoint_last.pt").exists()
