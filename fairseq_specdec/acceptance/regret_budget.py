"""Bound what a relaxed rule may give up in a sentence."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft

from .base import Acceptance, AcceptanceRule, NativeRule


class RegretBudgetRule(AcceptanceRule):
    """Accept what another rule accepts, while the sentence's regret stays within a budget.

    The regret of an output token is how far its log-probability lies below that of the verifier's
    best token, given the source and the output before it: ``max_v log p(v | y_<t) - log p(y_t |
    y_<t)`` in nats, constraints of the decoding applied. The regret of a sentence is the sum over
    its tokens. Every accepted token that is not the verifier's own choice is paid for, so that at
    the end ``sum_t log p(y_t | y_<t) >= sum_t max_v log p(v | y_<t) - budget``, which anyone can
    check by scoring the output once. A rule that limits each token (Ge et al. 2022, equation 9)
    bounds a sentence only by its limit times the length.

    Args:
        rule: judges draft tokens; its bonus token is the verifier's best.
        budget: nats per sentence, 0 or more. 0 accepts only what ties with the verifier's best.
    """

    lossless = False

    def __init__(self, rule: AcceptanceRule, budget: float) -> None:
        self.rule = rule
        self.budget = budget
        self.keeps_forced = rule.keeps_forced

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        self.rule.read_vocabulary(symbols)

    def native_form(self) -> NativeRule | None:
        form = self.rule.native_form()
        if form is None or form.regret_budget < math.inf:
            return None
        return form._replace(regret_budget=self.budget)

    def open(self, rows: int, device: torch.device) -> AcceptanceRule:
        return RegretOfBatch(self, rows, device)


class RegretOfBatch(RegretBudgetRule):
    """The rule for one batch."""

    spent: Tensor

    def __init__(self, rule: RegretBudgetRule, rows: int, device: torch.device) -> None:
        super().__init__(rule.rule.open(rows, device), rule.budget)
        self.spent = torch.zeros(rows, dtype=torch.float64, device=device)

    def select(self, rows: Tensor) -> None:
        self.rule.select(rows)
        self.spent = self.spent.index_select(0, rows)

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        verdict = self.rule.accept(draft, scores)
        if draft.width == 0:
            return verdict
        # [B, N + 1], spent before each token; summed one by one, as the native backend does. An
        # infinite gap stays infinite.
        spent = torch.cat([self.spent.unsqueeze(1), scores.gap(draft.tokens).double()], 1).cumsum(1)
        affordable = (spent[:, 1:] <= self.budget).long().cumprod(1).sum(1)
        counts = torch.minimum(verdict.counts, affordable)
        self.spent.copy_(spent.gather(1, counts.unsqueeze(1)).squeeze(1))
        best = scores.best().gather(1, counts.unsqueeze(1)).squeeze(1)
        return Acceptance(counts, best)
