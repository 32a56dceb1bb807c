import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_specdec.training.target_nll import target_nll

NOTHING = torch.zeros(0, dtype=torch.long)


def by_hand(logits, gold, epsilon, expected, share):
    """The same by whole tables in double precision, with autograd's gradient."""
    log_p = torch.log_softmax(logits.double(), -1)
    loss, nll = label_smoothed_nll_loss(log_p, gold, epsilon, reduce=False)
    loss, nll = loss.view(-1), nll.view(-1)
    if expected is not None:
        soft = -(torch.softmax(expected.double(), -1) * log_p).sum(-1)
        loss = (1.0 - share) * loss + share * soft
    return loss, nll


@pytest.mark.parametrize(
    "rows, words, epsilon, share",
    [(11, 50, 0.1, 0.3), (1, 2, 0.0, 1.0), (70, 9000, 0.1, 0.0), (70, 9000, 0.0, 0.3),
     (2, 300_000, 0.1, 1.0)],
)  # fmt: skip
def test_equals_fairseqs_loss_with_a_share_of_the_other_models(rows, words, epsilon, share):
    """Whether the table is worked on at once, in parts, or a row at a time."""
    torch.manual_seed(0)
    logits = (3 * torch.randn(rows, words)).requires_grad_()
    expected = None if share == 0.0 else 3 * torch.randn(rows, words)
    gold, weights = torch.randint(0, words, (rows,)), torch.rand(rows)
    loss, nll = target_nll(logits, gold, epsilon, expected, share)
    (loss * weights).sum().backward()
    grad, logits.grad = logits.grad, None

    wanted, wanted_nll = by_hand(logits, gold, epsilon, expected, share)
    (wanted * weights).sum().backward()
    assert torch.allclose(loss.double(), wanted, rtol=1e-4)
    assert torch.allclose(nll.double(), wanted_nll, rtol=1e-4)
    assert torch.allclose(grad, logits.grad, atol=1e-6)


def test_the_gradient_may_take_the_place_of_the_logits():
    torch.manual_seed(0)
    features, gold = torch.randn(70, 8, requires_grad=True), torch.randint(0, 9000, (70,))
    table, gradients = torch.randn(9000, 8), []
    for overwrite in (False, True):
        logits = torch.nn.functional.linear(features, table)
        loss, _ = target_nll(logits, gold, 0.1, overwrite=overwrite)
        before = logits.detach().clone()
        gradients.append(torch.autograd.grad(loss.sum(), features, retain_graph=True)[0])
        assert torch.equal(logits, before) != overwrite
    torch.testing.assert_close(*gradients, rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.sum().backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_give_an_fp32_loss(dtype):
    torch.manual_seed(0)
    logits = (10 * torch.randn(7, 300)).to(dtype).requires_grad_()
    expected, gold = (10 * torch.randn(7, 300)).to(dtype), torch.randint(0, 300, (7,))
    loss, nll = target_nll(logits, gold, 0.1, expected, 0.5)
    assert loss.dtype == nll.dtype == torch.float32 and not nll.requires_grad
    loss.sum().backward()
    exact = logits.detach().float().requires_grad_()
    wanted, _ = target_nll(exact, gold, 0.1, expected.float(), 0.5)
    wanted.sum().backward()
    assert logits.grad.dtype == dtype
    assert torch.allclose(loss, wanted, atol=1e-4)
    assert torch.allclose(logits.grad.float(), exact.grad, atol=2.0**-8)


def test_small_probabilities_of_the_other_model_reach_the_gradient_of_fp16_logits():
    """A probability of 1e-8 is 0 in fp16; times the loss scale it is not."""
    logits = torch.tensor([[0.0, -18.0]], dtype=torch.float16).requires_grad_()
    expected = torch.tensor([[0.0, -30.0]], dtype=torch.float16)
    loss, _ = target_nll(logits, torch.tensor([0]), 0.0, expected, 1.0)
    (2.0**14 * loss).sum().backward()
    wanted = 2.0**14 * torch.sigmoid(torch.tensor(-18.0, dtype=torch.float64))
    assert float(logits.grad[0, 1]) == pytest.approx(float(wanted), rel=1e-2)


def test_impossible_words_do_no_harm_without_smoothing():
    logits = torch.tensor([[1.0, float("-inf"), 2.0]], requires_grad=True)
    loss, nll = target_nll(logits, torch.tensor([0]), 0.0)
    loss.sum().backward()
    assert float(loss.detach()) == float(nll) == pytest.approx(1.3132616)  # ln(1 + e)
    assert logits.grad.tolist()[0] == pytest.approx([-0.7310586, 0.0, 0.7310586])


@pytest.mark.parametrize("expected", [None, torch.zeros(0, 9)])
def test_nothing_to_learn_is_a_loss_of_zero_with_a_gradient(expected):
    logits = torch.zeros(0, 9, requires_grad=True)
    loss, _ = target_nll(logits, NOTHING, 0.1, expected, 0.5)
    loss.sum().backward()
    assert float(loss.detach().sum()) == 0.0 and logits.grad.shape == (0, 9)
