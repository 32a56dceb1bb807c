"""Block verification: distributed as the verifier's own samples, and never fewer tokens."""

import pytest
import torch
from judging import judge

from fairseq_specdec.acceptance import BlockVerificationRule, Sampler

ROWS = 40000


class Told(Sampler):
    """Has the numbers that it is given, and notes the distributions that it draws from."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers, self.drawn_from = numbers, None

    def uniform(self, like):
        assert like.shape == self.numbers.shape
        return self.numbers

    def draw(self, probabilities):
        self.drawn_from = probabilities / probabilities.sum(1, keepdim=True)
        return probabilities.argmax(1)


def by_the_book(draft, p, q, numbers):
    """(accepted tokens, what the next one is drawn from) of one draft, by algorithm 2."""
    weights, kept = [1.0], 0
    for i, token in enumerate(draft):
        own, drawn = float(p[i, token]), float(q[i, token])
        weights.append(min(1.0, weights[-1] * own / max(drawn, 1e-40)) if own > 0 else 0.0)
        if i + 1 < len(draft):
            left = float((weights[-1] * p[i + 1] - q[i + 1]).clamp(min=0).sum())
            chance = left / max(left + 1 - weights[-1], 1e-30)
        else:
            chance = weights[-1]
        if numbers[i] < chance:
            kept = i + 1
    rest = p[kept]
    if kept < len(draft):
        positive = (weights[kept] * p[kept] - q[kept]).clamp(min=0)
        rest = positive if positive.sum() > 0 else rest
    return kept, rest / rest.sum()


@pytest.mark.parametrize("width", [1, 2, 5])
def test_is_the_algorithm_of_the_paper(width):
    rows, words = 300, 6
    generator = torch.Generator().manual_seed(width)
    p, other = (2 * torch.randn(2, rows, width + 1, words, generator=generator)).softmax(-1)
    p[1:, :, 5] = 0.0  # forbidden
    p = p / p.sum(-1, keepdim=True)
    q = (0.7 * p + 0.3 * other)[:, :width]
    draft = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(rows, width)
    q[::9, 0] = q[::9, 0].scatter(1, draft[::9, :1], 0.0)  # rounded
    sizes = torch.randint(0, width + 1, (rows,), generator=generator)
    sampler = Told(torch.rand(rows, width, generator=generator))
    verdict = judge(BlockVerificationRule(sampler), draft, sizes, p.log(), q.log())
    for row in range(rows):
        numbers = sampler.numbers[row].tolist()
        kept, rest = by_the_book(draft[row, : sizes[row]].tolist(), p[row], q[row], numbers)
        assert int(verdict.counts[row]) == kept
        assert torch.allclose(sampler.drawn_from[row], rest, atol=1e-4)
    assert set(verdict.counts.tolist()) == set(range(width + 1))


def test_where_nothing_is_left_the_next_token_is_the_verifiers():
    p = torch.tensor([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]])
    sampler = Told(torch.tensor([[1.0]]))  # no token is kept
    size = torch.tensor([1])
    judge(BlockVerificationRule(sampler), torch.tensor([[0]]), size, p.log(), p[:, :1].log())
    assert torch.allclose(sampler.drawn_from, p[:, 0])
