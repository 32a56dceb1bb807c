import threading

import pytest
import torch
from on_gpu import on_gpu

from fairseq_specdec.engine.eager import attention


def inputs(rows, width, slots, dtype=torch.float64):
    generator = torch.Generator().manual_seed(rows * 100 + width)
    heads, dim = 2, 4
    query = torch.randn(rows, width, heads, dim, generator=generator, dtype=dtype)
    key, value = torch.randn(2, rows, heads, slots, dim, generator=generator, dtype=dtype)
    mask = torch.rand(rows, 1, width, slots, generator=generator) < 0.7
    mask[..., 0] = True
    return query, key, value, mask


def slow(query, key, value, mask):
    """Number by number."""
    rows, width, heads, dim = query.shape
    out = torch.zeros(rows, width, heads, dim, dtype=torch.float64)
    for b in range(rows):
        for w in range(width):
            for h in range(heads):
                scores = [float(query[b, w, h] @ k) / dim**0.5 for k in key[b, h]]
                weights = torch.tensor(scores, dtype=torch.float64).exp()
                weights = weights * mask[b, 0, w].double()
                out[b, w, h] = (weights / weights.sum()) @ value[b, h].double()
    return out.flatten(2)


@pytest.mark.parametrize("rows, width", [(1, 1), (1, 5), (4, 1), (4, 5), (4, 20)])
def test_attention_is_its_equation(rows, width):
    query, key, value, mask = inputs(rows, width, 7)
    for chosen in (mask, attention.additive(mask, query), None):
        attended = attention.attend(query, key, value, chosen)
        wanted = slow(query, key, value, torch.ones_like(mask) if chosen is None else mask)
        torch.testing.assert_close(attended, wanted)


@pytest.mark.parametrize("dtype, other", [(torch.float16, True), (torch.float32, False)])
def test_a_gpu_leaves_out_cudnn_in_16_bits(dtype, other, monkeypatch):
    """From two threads too, of which one leaves while the other is inside."""
    cuda, seen = torch.backends.cuda, []
    first, second = threading.Event(), threading.Event()

    def kernel(query, key, value, attn_mask):
        seen.append(cuda.cudnn_sdp_enabled())
        if threading.current_thread() is not threading.main_thread():
            first.set()
            assert second.wait(20)
            seen.append(cuda.cudnn_sdp_enabled())
        return query

    monkeypatch.setattr(attention.F, "scaled_dot_product_attention", kernel)
    before = cuda.cudnn_sdp_enabled()
    cuda.enable_cudnn_sdp(True)
    try:
        query, key, value, mask = (on_gpu(each) for each in inputs(1, 5, 7, dtype))
        thread = threading.Thread(target=attention.attend, args=(query, key, value, mask))
        thread.start()
        assert first.wait(20)
        attention.attend(query, key, value, mask)
        second.set()
        thread.join()
        assert seen == [not other] * 3 and cuda.cudnn_sdp_enabled()
        attention.attend(query.float(), key.float(), value.float(), mask)
        assert seen[-1] and cuda.cudnn_sdp_enabled()
    finally:
        cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("slots", [1, 15, 16, 17])
def test_a_mask_in_numbers_has_rows_that_the_fused_kernel_takes(slots, dtype):
    mask = torch.rand(2, 3, slots) < 0.5
    numbers = attention.additive(mask, torch.zeros(1, dtype=dtype))
    assert numbers.dtype == dtype and numbers.shape == mask.shape
    assert torch.equal(numbers == 0, mask) and torch.equal(numbers == float("-inf"), ~mask)
    assert numbers.stride() == (3 * -(-slots // 16) * 16, -(-slots // 16) * 16, 1)
