from argparse import Namespace

import pytest
import torch
import torch.nn.functional as F
from on_gpu import on_gpu
from torch import nn

from fairseq_specdec.engine import torch_layers as linear
from fairseq_specdec.engine.state import additive
from fairseq_specdec.engine.torch_layers import Linear, attend


@pytest.mark.parametrize("bias", [True, False])
def test_a_product_of_several_modules_is_theirs_side_by_side(bias):
    torch.manual_seed(1)
    shape = (3, 7)
    one, two = nn.Linear(512, 256, bias=bias), nn.Linear(512, 128, bias=bias)
    x = torch.randn(*shape, 512)
    for chosen in ([one], [one, two]):
        product = Linear.of(*chosen)
        output = product(x)
        assert output.shape == (*shape, sum(m.out_features for m in chosen))
        wanted = torch.cat([m(x) for m in chosen], -1).detach()
        torch.testing.assert_close(output, wanted, atol=1e-4, rtol=1e-4)


def test_one_module_is_not_copied():
    module = nn.Linear(8, 4)
    assert Linear.of(module).weight.data_ptr() == module.weight.data_ptr()


def test_a_processor_reports_whether_it_multiplies_bf16(monkeypatch):
    for facts in ({}, *({"_is_avx512_bf16_supported": each.__bool__} for each in (False, True))):
        monkeypatch.setattr(torch, "cpu", Namespace(**facts))
        assert linear.computes_in_bf16() is any(each() for each in facts.values())


def test_large_fp32_weights_are_packed(monkeypatch):
    large, small = torch.zeros(256, 512), torch.zeros(256, 511)  # from 2^17 numbers on
    kinds = [large, small, large.bfloat16(), large.double()]
    packed = torch.backends.mkldnn.is_available()
    assert [Linear(weight, None).packed for weight in kinds] == [packed, False, False, False]
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not Linear(large, None).packed


@pytest.mark.parametrize("activation", [F.relu, torch.tanh])
@pytest.mark.parametrize("bias", [True, False])
def test_relu_on_a_gpu_is_in_the_product(bias, activation, monkeypatch):
    """torch's own kernel, which a processor has, too."""
    calls, fused = [], torch._addmm_activation
    monkeypatch.setattr(torch, "_addmm_activation", lambda *x: calls.append(x) or fused(*x))
    torch.manual_seed(1)
    one, x = nn.Linear(8, 5, bias=bias), torch.randn(2, 3, 8)
    product, wanted = Linear.of(one), activation(one(x))
    torch.testing.assert_close(product.activated(x, activation), wanted)
    assert not calls
    output = product.activated(on_gpu(x), activation).as_subclass(torch.Tensor)
    torch.testing.assert_close(output, wanted)
    assert len(calls) == (bias and activation is F.relu)


@pytest.mark.parametrize("rows, width", [(1, 1), (4, 5)])
def test_attention_is_its_equation(rows, width):
    generator = torch.Generator().manual_seed(width)
    query = torch.randn(rows, width, 2, 4, generator=generator)
    key, value = torch.randn(2, rows, 2, 7, 4, generator=generator)
    mask = torch.rand(rows, 1, width, 7, generator=generator) < 0.7
    mask[..., 0] = True
    for chosen in (mask, additive(mask, query), None):
        scores = torch.einsum("bwhd,bhtd->bhwt", query, key) / 4**0.5
        weights = scores.masked_fill(~mask & (chosen is not None), float("-inf")).softmax(-1)
        wanted = torch.einsum("bhwt,bhtd->bwhd", weights, value).flatten(2)
        torch.testing.assert_close(attend(query, key, value, chosen), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("slots", [1, 15, 16, 17])
def test_a_mask_in_numbers_has_rows_that_the_fused_kernel_takes(slots, dtype):
    mask = torch.rand(2, 3, slots) < 0.5
    numbers = additive(mask, torch.zeros(1, dtype=dtype))
    assert numbers.dtype == dtype and numbers.shape == mask.shape
    assert torch.equal(numbers == 0, mask) and torch.equal(numbers == float("-inf"), ~mask)
    assert numbers.stride() == (3 * -(-slots // 16) * 16, -(-slots // 16) * 16, 1)
