"""What decodes the batches of a generator."""

from __future__ import annotations

from typing import NamedTuple

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.drafting import Drafter
from fairseq_specdec.engine.transformer import Verifier

from .draft_budget import AcceptanceHistory, DraftBudget, OnePlan, Planning
from .native_form import NativeForm
from .options import DecodingOptions
from .policy import DecodingConstraints


class DecodingParts(NamedTuple):
    """What decodes a batch. Batches of many threads share it: nothing of it changes but the
    history.

    Attributes:
        read_hidden_states: the drafter is given the verifier's hidden states.
        rule: accepts draft tokens; not asked by beam search.
        ends_early: as in ``Drafter``.
        native: the native library's description of it, where it decodes chains.
        planning: decides how much to draft; None for whole drafts.
        history: how drafts were accepted so far; None where each batch begins anew.
    """

    verifier: Verifier
    drafter: Drafter
    read_hidden_states: bool
    rule: AcceptanceRule
    policy: DecodingConstraints
    options: DecodingOptions
    ends_early: bool = False
    native: NativeForm | None = None
    planning: Planning | None = None
    history: AcceptanceHistory | None = None

    def of_batch(self, sentences: int) -> DecodingParts:
        """For a batch that has so many sentences when it is full."""
        chance = self.options.planned_chance
        if chance is None or self.planning is None:
            return self
        return self._replace(planning=OnePlan(self.planning, sentences, chance))

    def budget(self, rows: int) -> DraftBudget:
        """How much to draft, for a batch of so many rows."""
        budget = DraftBudget(self.planning, self.history, self.ends_early)
        budget.plan(rows)
        return budget
