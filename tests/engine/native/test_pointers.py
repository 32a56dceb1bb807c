"""What is given to the library lies as it reads it."""

import pytest
import torch

from fairseq_specdec.engine.native.pointers import pointer


def test_tensors_in_order_have_an_address():
    tensor = torch.zeros(3, 4)
    assert pointer(tensor) == tensor.data_ptr()
    assert pointer(tensor[1:]) == tensor.data_ptr() + 16
    assert pointer(tensor[:, :2], rows_apart=True) == tensor.data_ptr()
    assert pointer(torch.ones(2, dtype=torch.bool), torch.bool) and pointer(None) is None


@pytest.mark.parametrize(
    "tensor, rows_apart",
    [
        (torch.zeros(3, 4, dtype=torch.float64), False),
        (torch.zeros(3, 4).t(), True),
        (torch.zeros(3, 4)[:, :2], False),
        (torch.zeros(3, 4)[:, ::2], True),
        (torch.zeros(3, 4, device="meta"), False),
    ],
    ids=["format", "columns", "gaps", "gaps within rows", "device"],
)
def test_others_are_refused(tensor, rows_apart):
    with pytest.raises(TypeError, match="reads torch.float32 row by row on the CPU, not"):
        pointer(tensor, rows_apart=rows_apart)
