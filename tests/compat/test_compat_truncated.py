"""A checkpoint that cannot be read is named."""

import argparse
import pickle

import pytest
import torch
from fairseq import checkpoint_utils


@pytest.mark.parametrize("size", [0, 1, 0.5], ids=["empty", "one byte", "half"])
def test_a_truncated_checkpoint_is_named(tmp_path, size):
    whole = tmp_path / "whole.pt"
    torch.save({"args": argparse.Namespace(arch="x"), "model": {"w": torch.randn(200)}}, str(whole))
    content = whole.read_bytes()
    path = tmp_path / "cut.pt"
    path.write_bytes(content[: int(size * len(content)) if isinstance(size, float) else size])
    with pytest.raises(Exception, match="cut.pt") as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert isinstance(caught.value, (RuntimeError, EOFError, pickle.UnpicklingError))
