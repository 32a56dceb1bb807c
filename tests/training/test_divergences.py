"""Each divergence against torch.distributions or its definition, and its gradient."""

import pytest
import torch
from torch.distributions import Categorical, kl_divergence

from fairseq_specdec.training.divergences import DIVERGENCES


def mixture(p, q):
    return Categorical(probs=(p.probs + q.probs) / 2)


BY_DEFINITION = {
    "forward-kl": kl_divergence,
    "reverse-kl": lambda p, q: kl_divergence(q, p),
    "jsd": lambda p, q: (kl_divergence(p, mixture(p, q)) + kl_divergence(q, mixture(p, q))) / 2,
    "tvd": lambda p, q: (p.probs - q.probs).clamp(min=0).sum(-1),
}


def logits(dtype=torch.double):
    torch.manual_seed(1)
    mine, theirs = 2 * torch.randn(2, 7, 11, dtype=dtype)
    return mine.requires_grad_(), theirs


@pytest.mark.parametrize("name", DIVERGENCES)
def test_is_its_definition_with_its_gradient(name):
    mine, theirs = logits()
    own = mine.detach().clone().requires_grad_()
    expected = BY_DEFINITION[name](Categorical(logits=theirs), Categorical(logits=own))
    got = DIVERGENCES[name](mine, theirs)
    assert got.shape == (7,) and got.dtype == torch.float32
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=1e-5)
    weights = torch.arange(1.0, 8.0)  # rows must not be mixed up
    (got * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(mine.grad, own.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_is_nothing_where_both_are_equal_and_finite_in_half_precision(name):
    mine, _ = logits(torch.bfloat16)
    divergence = DIVERGENCES[name](mine, mine.detach())
    torch.testing.assert_close(divergence, torch.zeros(7), atol=1e-5, rtol=0)
    far = torch.tensor([[90.0, 0.0, -90.0]], dtype=torch.bfloat16)
    assert bool(torch.isfinite(DIVERGENCES[name](far, -far)).all())
