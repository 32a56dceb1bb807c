import pytest
import torch

from fairseq_specdec.training.soft_nll import soft_nll


def test_equals_the_plain_formula_and_its_gradient():
    torch.manual_seed(0)
    logits = (3 * torch.randn(11, 50)).requires_grad_()
    expected, weights = 3 * torch.randn(11, 50), torch.rand(11)
    loss = soft_nll(logits, expected)
    (loss * weights).sum().backward()
    grad, logits.grad = logits.grad, None

    plain = -(torch.softmax(expected, -1) * torch.log_softmax(logits, -1)).sum(-1)
    (plain * weights).sum().backward()
    assert torch.allclose(loss, plain, atol=1e-5)
    assert torch.allclose(grad, logits.grad, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_an_fp32_loss(dtype):
    torch.manual_seed(0)
    logits = (10 * torch.randn(7, 300)).to(dtype).requires_grad_()
    expected = (10 * torch.randn(7, 300)).to(dtype)
    loss = soft_nll(logits, expected)
    assert loss.dtype == torch.float32
    loss.sum().backward()
    exact = logits.detach().float().requires_grad_()
    reference = soft_nll(exact, expected.float())
    reference.sum().backward()
    assert torch.allclose(loss, reference, atol=1e-4)
    assert torch.allclose(logits.grad.float(), exact.grad, atol=1e-2)


def test_small_probabilities_reach_the_gradient_of_fp16_logits():
    """A probability of 1e-8 is 0 in fp16; times the loss scale it is not."""
    logits = torch.tensor([[0.0, -18.0]], dtype=torch.float16).requires_grad_()
    expected = torch.tensor([[0.0, -30.0]], dtype=torch.float16)
    (2.0**14 * soft_nll(logits, expected)).sum().backward()
    wanted = 2.0**14 * torch.sigmoid(torch.tensor(-18.0, dtype=torch.float64))
    assert logits.grad.dtype == torch.float16
    assert float(logits.grad[0, 1]) == pytest.approx(float(wanted), rel=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_same_distribution_has_no_gradient(dtype):
    torch.manual_seed(0)
    expected = torch.randn(5, 20).to(dtype)
    expected[:, 0] = -18.0  # a probability below the smallest of fp16
    logits = expected.clone().requires_grad_()
    (2.0**14 * soft_nll(logits, expected)).sum().backward()
    assert float(logits.grad.abs().max()) < 2**14 * 1e-6
    assert logits.grad[:, 0].tolist() == [0.0] * 5


def test_nothing_to_learn_is_a_loss_of_zero_with_a_gradient():
    logits = torch.zeros(0, 9, requires_grad=True)
    loss = soft_nll(logits, torch.zeros(0, 9))
    loss.sum().backward()
    assert float(loss.detach().sum()) == 0.0 and logits.grad.shape == (0, 9)
