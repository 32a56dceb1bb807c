"""Places of a block's tokens against slow versions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_hypotheses import chain_layout

from fairseq_specdec.engine.state import Layout

lengths_of_rows = st.one_of(
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
    st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda both: [both[0]] * both[1]),
)


def whole_mask(layout, rows, width):
    mask = layout.mask()
    if mask is None:
        return torch.ones(rows, width, layout.upto, dtype=torch.bool)
    assert mask.dtype == torch.bool and mask.shape == (rows, 1, width, layout.upto)
    return mask[:, 0]


def check_run(layout, width):
    """A common run of slots is given where there is one, and only there."""
    slots = layout.slots.tolist()
    assert layout.upto == max(row[-1] for row in slots) + 1
    together = all(row == slots[0] for row in slots)
    assert (layout.run_from is not None) == together
    if together:
        assert slots[0] == list(range(layout.run_from, layout.run_from + width))


@given(lengths_of_rows, st.integers(1, 5))
def test_a_chain_sees_what_is_committed_and_itself(lengths, width):
    layout = chain_layout(lengths, width)
    expected = [[length + w for w in range(width)] for length in lengths]
    assert layout.positions.tolist() == layout.slots.tolist() == expected
    check_run(layout, width)
    mask = whole_mask(layout, len(lengths), width)
    for row, length in enumerate(lengths):
        for w in range(width):
            assert mask[row, w].nonzero().flatten().tolist() == list(range(length + w + 1))


@given(lengths_of_rows, st.integers(1, 5))
def test_positions_that_end_at_each_rows_last_token(lengths, width):
    """As small models read them: short rows begin with their first position, several times."""
    last = torch.tensor(lengths)
    positions = (last.unsqueeze(1) + torch.arange(1 - width, 1)).clamp(min=0)
    width = min(width, max(lengths) + 1)
    positions = positions[:, -width:]
    layout = Layout.at(positions, lengths)
    assert torch.equal(layout.positions, positions) and torch.equal(layout.slots, positions)
    check_run(layout, width)
    mask = whole_mask(layout, len(lengths), width)
    for row, places in enumerate(positions.tolist()):
        for w, place in enumerate(places):
            assert mask[row, w].nonzero().flatten().tolist() == list(range(place + 1))


@pytest.mark.parametrize("lengths", [[2, 2], [0, 3]])
def test_places_are_made_on_the_device_of_the_lengths(lengths):
    """ "meta" has shapes and no numbers, and mixes with no other device."""
    chain = chain_layout(lengths, 3, "meta")
    assert chain.mask().shape == (2, 1, 3, chain.upto)
    tensors = [chain.mask(), *(part for part in chain if isinstance(part, torch.Tensor))]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_a_token_that_sees_everything_needs_no_mask():
    """And only such a one: a mask costs an operation in every layer."""
    for lengths, width, alone in (([3, 3], 1, True), ([3, 3], 2, False), ([3, 2], 1, False)):
        layout = chain_layout(lengths, width)
        assert (layout.mask() is None) == alone


def test_only_in_a_chain_positions_are_slots():
    at = torch.tensor([[2, 3]])
    assert chain_layout([2], 2).in_order and Layout.at(at, [3]).in_order
    assert not Layout(at, at.clone(), 4, seen=torch.ones(1, 2, 4, dtype=torch.bool)).in_order


def test_scattered_tokens_see_the_slots_of_their_mask():
    positions, slots = torch.tensor([[3, 5], [4, 4]]), torch.tensor([[2, 0], [1, 3]])
    seen = torch.rand(2, 2, 7, generator=torch.Generator().manual_seed(1)) < 0.5
    layout = Layout(positions, slots, 7, seen=seen)
    assert torch.equal(layout.mask(), seen[:, None])
