import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_specdec.training.glancing import choose_revealed, glancing_ratio


def test_ratio_runs_in_a_straight_line_and_then_stays():
    assert glancing_ratio(0.5, 0.3, 0, 100) == 0.5
    assert abs(glancing_ratio(0.5, 0.3, 50, 100) - 0.4) < 1e-12
    assert abs(glancing_ratio(0.5, 0.3, 400, 100) - 0.3) < 1e-12
    assert glancing_ratio(0.2, 0.2, 7, 0) == 0.2


@given(st.integers(0, 10**6), st.floats(0, 1))
@settings(max_examples=80)
def test_each_block_reveals_its_share_of_errors_and_only_targets(seed, ratio):
    torch.manual_seed(seed)
    valid = torch.rand(3, 2, 7) < 0.7
    correct = (torch.rand(3, 2, 7) < 0.5) & valid
    revealed = choose_revealed(correct, valid, ratio)
    assert not (revealed & ~valid).any()
    for row in range(3):
        for block in range(2):
            wrong = int((valid & ~correct)[row, block].sum())
            expected = int(torch.tensor(float(wrong)) * ratio + 0.5)
            assert int(revealed[row, block].sum()) == expected


def test_revealed_positions_are_drawn_uniformly_from_all_targets():
    torch.manual_seed(0)
    valid = torch.tensor([True, True, True, True, False]).expand(20000, 5)
    correct = torch.tensor([True, True, False, False, False]).expand(20000, 5)
    share = choose_revealed(correct, valid, 0.5).float().mean(0)  # one of four
    assert torch.allclose(share, torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0]), atol=0.02)
