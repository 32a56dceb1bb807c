"""Places of a block's tokens, and drafts that are cut, against slow versions."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_hypotheses import chain_layout

from fairseq_specdec.engine.state import Draft, Layout

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


def test_a_token_that_sees_everything_needs_no_mask():
    """And only such a one: a mask costs an operation in every layer."""
    for lengths, width, alone in (([3, 3], 1, True), ([3, 3], 2, False), ([3, 2], 1, False)):
        layout = chain_layout(lengths, width)
        assert (layout.mask() is None) == alone and layout.in_order


def random_draft(seed, rows, width, vocabulary=7):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocabulary, (rows, width), generator=generator)
    sizes = torch.randint(0, width + 1, (rows,), generator=generator)
    log_probs = torch.randn(rows, width, vocabulary, generator=generator).log_softmax(-1)
    return Draft(tokens, sizes, log_probs, 3)


def entries(draft):
    """What each row says: (token, its distribution) of every entry that counts."""
    rows = []
    for row, size in enumerate(draft.sizes.tolist()):
        assert size <= draft.width
        chances = [None] * size
        if draft.log_probs is not None:
            chances = draft.log_probs[row, :size].tolist()
        rows.append(list(zip(draft.tokens[row, :size].tolist(), chances)))
    return rows


@given(
    st.integers(0, 10**6),
    st.tuples(st.integers(1, 4), st.integers(0, 6)),
    st.integers(0, 8),
    st.lists(st.integers(0, 7), min_size=4, max_size=4) | st.none(),
    st.booleans(),
)
def test_a_draft_keeps_its_first_tokens(seed, shape, most, room, sampled):
    draft = random_draft(seed, *shape)
    if not sampled:
        draft = draft._replace(log_probs=None)
    limited = draft.limited(most, None if room is None else torch.tensor(room[: shape[0]]))
    expected = [
        row[: most if room is None else min(most, left)]
        for row, left in zip(entries(draft), room or draft.sizes.tolist())
    ]
    assert entries(limited) == expected
    assert limited.width == min(most, draft.width) and limited.passes == draft.passes
    assert (limited.log_probs is not None) == sampled
    assert not sampled or limited.log_probs.size(1) == limited.width
