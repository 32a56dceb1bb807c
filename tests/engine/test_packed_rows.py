"""Rows of packed weights are those of the weight, bit for bit, or are not found."""

import types

import pytest
import torch

from fairseq_specdec.engine.eager import linear
from fairseq_specdec.engine.eager.packed_rows import PackedRows

pytestmark = pytest.mark.skipif(
    not linear._can_prepack(torch.zeros(1, 1)) or not hasattr(torch.ops.mkldnn, "data_ptr"),
    reason="this torch packs nothing, or tells no place of it",
)


def pack(weight):
    return torch.ops.mkldnn._reorder_linear_weight(weight, 16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(64, 16), (7, 3), (65, 33), (600, 100), (2100, 48)])
def test_rows_are_those_of_the_weight(shape, dtype):
    if not linear._can_prepack(torch.zeros(1, 1, dtype=dtype)):
        pytest.skip(f"this processor packs no {dtype}")
    torch.manual_seed(sum(shape))
    weight = torch.randn(shape).to(dtype)
    weight[0, 0] = float("nan")
    weight[-1, -1] = -0.0
    rows = PackedRows.find(pack(weight), weight)
    assert rows is not None  # holds for the layouts of every processor tried so far
    ids = torch.randint(shape[0], (2, 3, 4))
    found = rows(ids)
    assert found.shape == (2, 3, 4, shape[1]) and found.dtype == dtype
    assert torch.equal(found.nan_to_num(), weight[ids].nan_to_num())
    every = rows(torch.arange(shape[0]))
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    assert torch.equal(every.view(bits), weight.view(bits))
    assert rows(ids[:0]).shape == (0, 3, 4, shape[1])


def test_memory_is_kept_while_rows_are():
    weight = torch.randn(600, 64)
    rows = PackedRows.find(pack(weight), weight)
    rubbish = [torch.full((600, 64), float("nan")) for _ in range(50)]
    assert torch.equal(rows(torch.arange(600)), weight) and rubbish


def laid_out(weight, panel, pair):
    """The weight as a processor with such panels would pack it, in ordinary memory."""
    rows, columns = weight.shape
    panels, pairs = -(-rows // panel), -(-columns // pair)
    whole = torch.zeros(panels * panel, pairs * pair, dtype=weight.dtype)
    whole[:rows, :columns] = weight
    return whole.view(panels, panel, pairs, pair).transpose(1, 2).contiguous()


def operations(**present):
    """torch.ops.mkldnn, for tensors in ordinary memory."""
    return types.SimpleNamespace(**present)


ADDRESS = {"data_ptr": torch.Tensor.data_ptr}
SIZE = {"_nbytes": lambda packed: packed.numel() * packed.element_size()}


@pytest.mark.parametrize("shape", [(200, 31), (100, 64), (13, 6)])
@pytest.mark.parametrize("panel", [64, 48, 32, 24, 16, 8, None], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_are_found_in_the_layouts_of_other_processors(shape, panel, dtype, monkeypatch):
    monkeypatch.setattr(torch.ops, "mkldnn", operations(**ADDRESS, **SIZE))
    weight = torch.randn(shape).to(dtype)
    for pair in (1, 2):
        packed = laid_out(weight, panel or shape[0], pair)
        found = PackedRows.find(packed, weight)
        assert torch.equal(found(torch.arange(shape[0])), weight)
        assert PackedRows.find(packed, weight.roll(1, 0)) is None
        assert PackedRows.find(packed.flatten()[1:], weight) is None
        assert PackedRows.find(packed.flatten()[: shape[0]], weight) is None


@pytest.mark.parametrize("present", [{}, ADDRESS, SIZE], ids=["none", "address", "size"])
def test_an_older_torch_gives_no_rows(present, monkeypatch):
    monkeypatch.setattr(torch.ops, "mkldnn", operations(**present))
    weight = torch.randn(64, 8)
    assert PackedRows.find(weight, weight) is None


@pytest.mark.parametrize("place", [(0, 0), (299, 7), (0, 63), (64, 0)])
def test_a_layout_that_differs_anywhere_is_not_taken(place):
    weight = torch.randn(300, 64)
    packed = pack(weight)
    weight[place] += 1e-3
    assert PackedRows.find(packed, weight) is None
