import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_specdec.training.smoothed_nll import smoothed_nll


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_equals_fairseqs_loss_and_its_gradient(epsilon):
    torch.manual_seed(0)
    logits = torch.randn(11, 50, dtype=torch.float64).float().requires_grad_()
    gold, weights = torch.randint(0, 50, (11,)), torch.rand(11)
    loss, nll = smoothed_nll(logits, gold, epsilon)
    (loss * weights).sum().backward()
    grad, logits.grad = logits.grad, None

    log_p = torch.log_softmax(logits, -1)
    expected, expected_nll = label_smoothed_nll_loss(log_p, gold, epsilon, reduce=False)
    expected = expected.view(-1)
    (expected * weights).sum().backward()
    assert torch.allclose(loss, expected, atol=1e-5)
    assert torch.allclose(nll, expected_nll.view(-1), atol=1e-5)
    assert torch.allclose(grad, logits.grad, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_an_fp32_loss(dtype):
    torch.manual_seed(0)
    logits = (10 * torch.randn(7, 300)).to(dtype).requires_grad_()
    gold = torch.randint(0, 300, (7,))
    loss, nll = smoothed_nll(logits, gold, 0.1)
    assert loss.dtype == nll.dtype == torch.float32 and not nll.requires_grad
    loss.sum().backward()
    exact = logits.detach().float().requires_grad_()
    expected, _ = smoothed_nll(exact, gold, 0.1)
    expected.sum().backward()
    assert torch.allclose(loss, expected, atol=1e-4)
    assert torch.allclose(logits.grad.float(), exact.grad, atol=1e-2)


def test_fp16_gradient_keeps_small_probabilities_under_a_loss_scale():
    logits = torch.tensor([[17.0, 0.0, 0.0]], dtype=torch.float16, requires_grad=True)
    loss, _ = smoothed_nll(logits, torch.tensor([0]), 0.0)
    (loss * 1024).sum().backward()
    assert abs(float(logits.grad[0, 1]) / (1024 * float(torch.exp(torch.tensor(-17.0)))) - 1) < 0.02


def test_impossible_words_do_no_harm_without_smoothing():
    logits = torch.tensor([[1.0, float("-inf"), 2.0]], requires_grad=True)
    loss, nll = smoothed_nll(logits, torch.tensor([0]), 0.0)
    loss.sum().backward()
    assert float(loss.detach()) == float(nll) == pytest.approx(1.3132616)  # ln(1 + e)
    assert logits.grad.tolist()[0] == pytest.approx([-0.7310586, 0.0, 0.7310586])


def test_nothing_to_learn_is_a_loss_of_zero_with_a_gradient():
    logits = torch.zeros(0, 9, requires_grad=True)
    loss, _ = smoothed_nll(logits, torch.zeros(0, dtype=torch.long), 0.1)
    loss.sum().backward()
    assert float(loss.detach().sum()) == 0.0 and logits.grad.shape == (0, 9)
