"""Checkpoints whose training state was removed are read."""

import argparse

import pytest
import torch
from fairseq import checkpoint_utils


@pytest.mark.parametrize("history", [[], [{"num_updates": 3, "lr_scheduler_state": {}}]])
def test_an_empty_optimizer_history_is_no_fault(history, tmp_path):
    args = argparse.Namespace(
        arch="transformer", task="translation", data="x", criterion="cross_entropy", lr=[0.1]
    )
    state = {"args": args, "model": {"w": torch.ones(1)}, "optimizer_history": history}
    torch.save(dict(state, extra_state={}), tmp_path / "checkpoint.pt")
    read = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint.pt"))
    assert read["model"]["w"].tolist() == [1.0]
    assert read["optimizer_history"][-1]["num_updates"] == (3 if history else 0)
