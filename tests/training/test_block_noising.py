import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_specdec.training.block_noising import (
    block_attention,
    block_positions,
    block_targets,
    draw_cuts,
    fixed_cuts,
)


@st.composite
def layouts(draw):
    width = draw(st.integers(1, 7))
    rows, num_cuts = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    cut = st.integers(0, width - 1)
    cuts = draw(
        st.lists(st.lists(cut, min_size=num_cuts, max_size=num_cuts), min_size=rows, max_size=rows)
    )
    return torch.tensor(cuts), width, draw(st.integers(1, 4))


def slow_attention(cuts, width, size, bidirectional):
    """The rule of attention, a pair at a time."""
    total = width + cuts.size(1) * size
    allowed = torch.zeros(cuts.size(0), total, total, dtype=torch.bool)
    for row in range(cuts.size(0)):
        for query in range(total):
            for key in range(total):
                query_block, key_block = (query - width) // size, (key - width) // size
                if query < width and key < width:
                    yes = key <= query
                    if bidirectional:
                        yes = yes or (query <= cuts[row, 0] and key <= cuts[row, 0])
                elif query < width:
                    yes = bidirectional and query <= cuts[row, 0]
                elif key < width:
                    yes = key <= cuts[row, query_block]
                else:
                    yes = query_block == key_block
                allowed[row, query, key] = bool(yes)
    return allowed


@given(layouts(), st.booleans())
@settings(max_examples=100)
def test_attention_follows_the_rule_for_every_pair(layout, bidirectional):
    """Both this project's and the papers', of one cut a row."""
    cuts, width, size = layout
    cuts = cuts[:, :1] if bidirectional else cuts
    expected = slow_attention(cuts, width, size, bidirectional)
    assert torch.equal(block_attention(cuts, width, size, bidirectional), expected)


@given(layouts(), st.integers(0, 10**6))
@settings(max_examples=60)
def test_targets_and_positions_follow_the_cut(layout, seed):
    cuts, width, size = layout
    target = torch.randint(4, 50, (cuts.size(0), width), generator=torch.manual_seed(seed))
    got = block_targets(target, cuts, size, padding_idx=1)
    positions = block_positions(cuts, size)
    assert positions.shape == got.shape == (*cuts.shape, size)
    for row in range(cuts.size(0)):
        for block in range(cuts.size(1)):
            for step in range(size):
                index = int(cuts[row, block]) + step
                expected = int(target[row, index]) if index < width else 1
                assert int(got[row, block, step]) == expected
                assert int(positions[row, block, step]) == index + 1


def test_drawn_cuts_are_uniform_over_the_target():
    torch.manual_seed(0)
    lengths = torch.tensor([1, 2, 5])
    cuts = draw_cuts(lengths, 20000)
    assert cuts.min() == 0 and (cuts < lengths[:, None]).all()
    for row, length in enumerate(lengths.tolist()):
        share = torch.bincount(cuts[row], minlength=length).float() / 20000
        assert torch.allclose(share, torch.full((length,), 1 / length), atol=0.02)


def test_the_largest_random_number_is_still_a_cut(monkeypatch):
    below_one = 1 - 2**-24
    monkeypatch.setattr(torch, "rand", lambda *shape, device: torch.full(shape, below_one))
    lengths = torch.cat([torch.arange(1, 5000), 2 ** torch.arange(13, 25)])
    assert draw_cuts(lengths, 1).squeeze(1).tolist() == (lengths - 1).tolist()


def test_fixed_cuts_are_multiples_of_the_golden_ratio_and_spread_evenly():
    ratio = (5**0.5 - 1) / 2
    ids, length = [0, 1, 7, 12345], 1000
    expected = [
        [int(((number + 1) * ratio + cut / 4) % 1 * length) for cut in range(4)] for number in ids
    ]
    cuts = fixed_cuts(torch.tensor(ids), torch.full((len(ids),), length), 4)
    assert cuts.tolist() == expected
