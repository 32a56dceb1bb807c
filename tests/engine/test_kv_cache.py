import torch
from toy_hypotheses import chain_layout

from fairseq_specdec.engine.torch_decoder import KVCache

LIKE = torch.zeros(1)


def started(rows, slots, like=LIKE):
    cache = KVCache(1, 2, 1)
    cache.start(rows, slots, like)
    return cache


def write(cache, start, width, value):
    """Write a block at a start per row, as the verifier does; returns the keys of head 0."""
    cache.place(chain_layout(start, width))
    keys, values = cache.write(0, torch.full((len(start), width, 4), float(value)))
    assert torch.equal(keys, values)
    return keys[:, 0, :, 0].tolist()


def test_rejected_tokens_are_overwritten_and_growing_loses_nothing():
    for slots in (8, 2):
        cache = started(2, slots)
        write(cache, [0, 0], 2, 1.0)
        first, second = write(cache, [2, 1], 5, 2.0)
        assert cache.capacity >= 7
        assert first == [1, 1, 2, 2, 2, 2, 2] and second[:6] == [1, 2, 2, 2, 2, 2]


def test_selected_rows_keep_their_own_past():
    cache = started(3, 8)
    cache.place(chain_layout([0, 0, 0], 2))
    cache.write(0, torch.arange(3.0).view(3, 1, 1).expand(3, 2, 4))
    cache.keep(torch.tensor([0, 2]), 2)
    assert write(cache, [2, 2], 1, 9.0) == [[0, 0, 9], [2, 2, 9]]


def test_buffers_serve_smaller_batches_and_grow_for_larger_ones():
    cache = started(4, 8)
    first = cache.slots[0]
    cache.start(2, 4, LIKE)
    cache.reserve(8)
    assert cache.slots[0] is first
    cache.reserve(9)  # doubled: else every iteration past the first guess would copy all of it
    assert cache.capacity == 16
    cache.start(5, 4, LIKE)
    assert cache.slots[0].shape == (2, 5, 2, 16, 1)
    for like in (LIKE.half(), LIKE, LIKE.to("meta")):
        cache.start(2, 4, like)
        assert cache.slots[0].dtype == like.dtype and cache.slots[0].device == like.device


def test_every_head_gets_its_own_part():
    """Keys of all heads come first, then values; even and ragged writes agree."""
    heads, dim, width = 3, 2, 4
    block = torch.randn(2, width, 2 * heads * dim)
    wanted = block.view(2, width, 2, heads, dim)
    for start in ([1, 1], [0, 2]):
        cache = KVCache(1, heads, dim)
        cache.start(5, 8, LIKE)
        cache.start(2, 8, LIKE)  # fewer rows than the buffers have
        layout = chain_layout(start, width)
        assert (layout.run_from is None) == (start == [0, 2])
        cache.place(layout._replace(upto=7))
        keys, values = cache.write(0, block)
        assert keys.shape == values.shape == (2, heads, 7, dim)
        for row, first in enumerate(start):
            got = torch.stack([keys[row], values[row]])[:, :, first : first + width]
            assert torch.equal(got, wanted[row].permute(1, 2, 0, 3))
