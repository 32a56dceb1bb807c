import pytest
import torch
from torch import nn

from fairseq_specdec.engine.eager import linear
from fairseq_specdec.engine.eager.linear import Linear, padded


def test_many_numbers_of_rows_share_one_program():
    sizes = [padded(rows) for rows in range(1, 1000)]
    assert all(rows <= size <= 1.25 * rows + 1 for rows, size in enumerate(sizes, 1))
    assert sizes[:16] == list(range(1, 17))  # one sentence's blocks are not padded
    assert sizes == sorted(sizes) and len(set(sizes)) < 60
    assert all(padded(size) == size for size in sizes)


@pytest.mark.parametrize("shape", [(1, 1), (1, 11), (3, 7), (32, 1), (30, 3), (9, 33)])
@pytest.mark.parametrize("bias", [True, False])
def test_padding_changes_no_number(shape, bias):
    torch.manual_seed(1)
    one, two = nn.Linear(1024, 512, bias=bias), nn.Linear(1024, 128, bias=bias)
    x = torch.randn(*shape, 1024)
    for chosen in ([one], [one, two]):
        product = Linear.of(*chosen)
        found = product(x)
        assert found.shape == (*shape, sum(m.out_features for m in chosen))
        wanted = torch.cat([m(x) for m in chosen], -1).detach()
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_one_module_is_not_copied():
    module = nn.Linear(8, 4)
    assert Linear.of(module).weight.data_ptr() == module.weight.data_ptr()


def test_a_number_format_that_the_processor_cannot_pack_stays_plain(monkeypatch):
    """oneDNN packs bf16 on processors with AVX-512 only, and float64 nowhere."""
    assert not linear.packs(torch.float64)
    monkeypatch.setattr(linear, "packs", lambda dtype: False)
    module = nn.Linear(24, 8).bfloat16()
    product = Linear.of(module, free_unpacked=True)
    assert product.packed is None and type(module) is nn.Linear
    x = torch.randn(3, 24, dtype=torch.bfloat16)
    assert torch.equal(product(x), module(x).detach())
