"""What is given to the library lies as it reads it."""

import pytest
import torch

from fairseq_specdec.engine.native.linear import pointer


def test_tensors_in_order_have_an_address():
    tensor = torch.zeros(3, 4)
    assert pointer(tensor) == tensor.data_ptr()
    assert pointer(tensor[1:]) == tensor.data_ptr() + 16
    assert pointer(torch.ones(2, dtype=torch.bool), torch.bool) and pointer(None) is None


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(3, 4, dtype=torch.float64),
        torch.zeros(3, 4).t(),
        torch.zeros(3, 4)[:, :2],
        torch.zeros(3, 4, device="meta"),
    ],
    ids=["format", "columns", "gaps", "device"],
)
def test_others_are_refused(tensor):
    with pytest.raises(TypeError, match="reads torch.float32 row by row on the CPU, not"):
        pointer(tensor)
