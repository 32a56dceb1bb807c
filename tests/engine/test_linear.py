from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F
from on_gpu import on_gpu
from torch import nn

from fairseq_specdec.engine.eager import linear
from fairseq_specdec.engine.eager.linear import Linear, padded


def test_many_numbers_of_rows_share_one_program():
    sizes = [padded(rows) for rows in range(1, 1000)]
    assert all(rows <= size <= 1.25 * rows + 1 for rows, size in enumerate(sizes, 1))
    assert sizes[:16] == list(range(1, 17))  # one sentence's blocks are not padded
    assert [padded(rows) for rows in (17, 64, 65, 256, 257)] == [20, 64, 80, 256, 320]
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
        output = product(x)
        assert output.shape == (*shape, sum(m.out_features for m in chosen))
        wanted = torch.cat([m(x) for m in chosen], -1).detach()
        torch.testing.assert_close(output, wanted, atol=1e-4, rtol=1e-4)


def test_one_module_is_not_copied():
    module = nn.Linear(8, 4)
    assert Linear.of(module).weight.data_ptr() == module.weight.data_ptr()


@pytest.fixture()
def ask_again():
    """What this processor can is asked once; tests ask about others."""
    linear.packs.cache_clear()
    yield linear.packs.cache_clear
    linear.packs.cache_clear()


packing = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch packs nothing"
)


@packing
def test_products_are_packed_where_onednn_has_them(ask_again, monkeypatch):
    assert linear.packs(torch.float32) and not linear.packs(torch.float64)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    ask_again()
    assert not linear.packs(torch.float32)


def test_a_processor_reports_whether_it_multiplies_bf16(monkeypatch):
    for answer in (True, False):
        answers = {"_is_avx512_bf16_supported": answer.__bool__}
        monkeypatch.setattr(torch, "cpu", Namespace(**answers))
        assert linear.computes_in_bf16() is answer
    monkeypatch.setattr(torch, "cpu", Namespace())
    assert linear.computes_in_bf16() is False


def packed_rows_of(product, x):
    """Shape of what went into oneDNN's packed product, or None where it was not called."""
    with torch.autograd.profiler.profile(record_shapes=True) as seen:
        product(x)
    shapes = [e.input_shapes[0] for e in seen.function_events if "_linear_pointwise" in e.name]
    return tuple(shapes[0]) if shapes else None


@packing
def test_small_products_take_the_weight_and_others_the_packed_one():
    product = Linear(torch.randn(64, 64), None)
    assert packed_rows_of(product, torch.randn(128, 64)) is None  # 2^19 multiplications
    assert packed_rows_of(product, torch.randn(129, 64)) == (144, 64)
    assert Linear(torch.zeros(256, 511), None).weight is not None
    large = Linear(torch.zeros(256, 512), None)  # 2^17 numbers
    assert large.weight is None
    for shape, rows in (((1,), (1,)), ((7,), (7,)), ((2, 8), (2, 8)), ((30, 3), (96,))):
        assert packed_rows_of(large, torch.zeros(*shape, 512)) == (*rows, 512)


def test_a_number_format_that_the_processor_cannot_pack_stays_plain(monkeypatch):
    """oneDNN packs bf16 on processors with AVX-512 only, and float64 nowhere."""
    monkeypatch.setattr(linear, "packs", lambda dtype: dtype != torch.bfloat16)
    module = nn.Linear(24, 8).bfloat16()
    product = Linear.of(module, free_unpacked=True)
    assert product.packed is None and type(module) is nn.Linear
    x = torch.randn(3, 24, dtype=torch.bfloat16)
    assert torch.equal(product(x), module(x).detach())


@pytest.mark.skipif(linear.FUSED_RELU is None, reason="torch has no such kernel")
@pytest.mark.parametrize("activation", [F.relu, torch.tanh])
@pytest.mark.parametrize("bias", [True, False])
def test_relu_on_a_gpu_is_in_the_product(bias, activation, monkeypatch):
    """torch's own kernel, which a processor has, too."""
    calls, fused = [], linear.FUSED_RELU
    assert fused is torch._addmm_activation
    monkeypatch.setattr(linear, "FUSED_RELU", lambda *given: calls.append(given) or fused(*given))
    torch.manual_seed(1)
    one, x = nn.Linear(8, 5, bias=bias), torch.randn(2, 3, 8)
    product, wanted = Linear.of(one), activation(one(x))
    torch.testing.assert_close(product.activated(x, activation), wanted)
    assert not calls
    output = product.activated(on_gpu(x), activation).as_subclass(torch.Tensor)
    torch.testing.assert_close(output, wanted)
    assert len(calls) == (bias and activation is F.relu)
    monkeypatch.setattr(linear, "FUSED_RELU", None)
    output = product.activated(on_gpu(x), activation).as_subclass(torch.Tensor)
    torch.testing.assert_close(output, wanted)
