import torch
from toy_hypotheses import chain_layout

from fairseq_specdec.engine.torch_decoder import KVCache

LIKE = torch.zeros(1)


def entries(rows, width, value):
    return torch.full((rows, width, 4), float(value))


def write(cache, start, width, value):
    """Write a block at a start per row, as the verifier does; returns the keys of head 0."""
    cache.place(chain_layout(start, width))
    keys, values = cache.write(0, entries(len(start), width, value))
    assert torch.equal(keys, values)
    return keys[:, 0]


def test_rejected_tokens_are_overwritten():
    cache = KVCache(1, 2, 1)
    cache.start(2, 8, LIKE)
    write(cache, [0, 0], 4, 1.0)
    seen = write(cache, [2, 1], 2, 2.0)[..., 0]
    assert seen[0].tolist() == [1, 1, 2, 2]
    assert seen[1].tolist() == [1, 2, 2, 1]  # the last slot is stale, and past every horizon


def test_grows_without_losing_anything():
    cache = KVCache(1, 2, 1)
    cache.start(2, 2, LIKE)
    write(cache, [0, 0], 2, 1.0)
    seen = write(cache, [2, 1], 5, 2.0)
    assert cache.capacity >= 7
    assert seen[0, :, 0].tolist() == [1, 1, 2, 2, 2, 2, 2]
    assert seen[1, :6, 0].tolist() == [1, 2, 2, 2, 2, 2]


def test_selected_rows_keep_their_own_past():
    cache = KVCache(1, 2, 1)
    cache.start(3, 8, LIKE)
    cache.place(chain_layout([0, 0, 0], 2))
    cache.write(0, torch.arange(3.0).view(3, 1, 1).expand(3, 2, 4))
    cache.keep(torch.tensor([0, 2]), 2)
    seen = write(cache, [2, 2], 1, 9.0)
    assert seen[..., 0].tolist() == [[0, 0, 9], [2, 2, 9]]


def test_a_smaller_batch_reuses_the_buffers():
    cache = KVCache(2, 2, 1)
    cache.start(4, 8, LIKE)
    before = [buffer.data_ptr() for buffer in cache.slots]
    for rows, slots in ((4, 8), (2, 4)):
        cache.start(rows, slots, LIKE)
        assert [buffer.data_ptr() for buffer in cache.slots] == before


def test_another_number_format_or_device_gets_buffers_of_its_own():
    cache = KVCache(1, 2, 1)
    cache.start(2, 4, LIKE)
    for like in (LIKE.half(), LIKE, LIKE.to("meta")):
        cache.start(2, 4, like)
        assert cache.slots[0].dtype == like.dtype and cache.slots[0].device == like.device


def test_a_larger_batch_gets_larger_buffers_and_longer_ones_stay_long():
    cache = KVCache(2, 2, 1)
    assert cache.capacity == 0
    cache.start(2, 8, LIKE)
    cache.start(3, 4, LIKE)
    assert [buffer.shape for buffer in cache.slots] == [(2, 3, 2, 8, 1)] * 2
    cache.start(3, 9, LIKE)
    assert cache.capacity == 9


def test_a_cache_that_must_grow_doubles():
    """Else every iteration past the first guess would copy all of it."""
    cache = KVCache(1, 2, 1)
    cache.start(2, 8, LIKE)
    kept = cache.slots[0]
    cache.reserve(8)
    assert cache.slots[0] is kept
    cache.reserve(9)
    assert cache.capacity == 16
    cache.reserve(40)
    assert cache.capacity == 40


def test_blocks_are_placed_on_the_device_of_the_slots():
    """ "meta" has shapes and no numbers, and mixes with no other device."""
    cache = KVCache(1, 2, 1)
    cache.start(2, 8, LIKE.to("meta"))
    block = entries(2, 3, 1.0).to("meta")
    for start in ([1, 1], [0, 2]):
        cache.place(chain_layout(start, 3, "meta"))
        keys, values = cache.write(0, block)
        assert keys.shape == values.shape == (2, 2, max(start) + 3, 1) and keys.is_meta


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
