import torch

from fairseq_specdec.training.expected_length import expected_length_weights


def _expected_length(q, learnt):
    return torch.where(learnt, q, torch.zeros_like(q)).cumprod(-1).sum()


def test_weighted_nll_has_the_gradient_of_the_expected_length():
    generator = torch.Generator().manual_seed(3)
    q = torch.rand(2, 3, 5, generator=generator, dtype=torch.float64) * 0.9 + 0.05
    learnt = torch.ones(2, 3, 5, dtype=torch.bool)
    learnt[0, 1, 3:] = learnt[1, 2, 1:] = learnt[1, 0] = False
    log_q = q.log().requires_grad_()
    nll = -log_q[learnt]
    (expected_length_weights(nll, learnt) * nll).sum().backward()
    by_hand = q.log().requires_grad_()
    _expected_length(by_hand.exp(), learnt).backward()
    torch.testing.assert_close(log_q.grad, -by_hand.grad, rtol=1e-5, atol=1e-6)
    assert by_hand.grad.abs().max() > 0.5


def test_a_block_ends_at_the_first_position_that_is_not_learnt():
    learnt = torch.tensor([[True, False, True]])
    weights = expected_length_weights(torch.zeros(2), learnt)
    assert weights.tolist() == [1.0, 0.0]


def test_weights_carry_no_gradient_and_are_fp32():
    nll = torch.zeros(2, dtype=torch.float16, requires_grad=True)
    weights = expected_length_weights(nll, torch.ones(1, 2, dtype=torch.bool))
    assert not weights.requires_grad
    assert weights.dtype == torch.float32
    assert weights.tolist() == [2.0, 1.0]
