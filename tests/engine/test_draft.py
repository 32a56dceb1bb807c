"""A cut draft is what is left of every row."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.engine.state import Draft


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


def test_every_row_has_room_of_its_own():
    tokens = torch.arange(12).view(3, 4)
    draft = Draft(tokens, torch.tensor([4, 4, 1])).limited(3, torch.tensor([0, 2, 9]))
    assert draft.sizes.tolist() == [0, 2, 1]
    assert draft.tokens.tolist() == [[0, 1, 2], [4, 5, 6], [8, 9, 10]]


def test_what_fits_stays_as_it_is():
    draft = random_draft(5, 3, 4)
    limited = draft.limited(4)
    assert all(ours is theirs for ours, theirs in zip(limited, draft))


def test_an_empty_draft_has_no_tokens():
    draft = Draft.empty(torch.tensor([3, 0]))
    assert draft.width == 0
    assert draft.tokens.shape == (2, 0) and draft.tokens.dtype == torch.long
    assert draft.sizes.tolist() == [0, 0] and draft.passes == 0
    assert entries(draft.limited(0, torch.tensor([0, 5]))) == [[], []]
