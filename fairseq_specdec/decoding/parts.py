"""What decodes the batches of a generator."""

from __future__ import annotations

from typing import NamedTuple, Optional

from fairseq_specdec.drafting import DraftSession, ReadyDrafter, Source
from fairseq_specdec.drafting.deferred import DeferredSession
from fairseq_specdec.engine.verifier import Verifier

from .draft_budget import DraftBudget, History, Planning
from .draft_plan import Planner
from .native_form import NativeForm
from .options import DecodingOptions
from .policy import DecodingConstraints
from .search import Search


class DecodingParts(NamedTuple):
    """What decodes a batch. Batches of many threads share it: nothing of it changes but the
    history.

    Attributes:
        verifier: scores blocks.
        drafter: proposes them.
        read_hidden_states: the drafter is given the verifier's hidden states.
        search: decides what enters the hypotheses.
        policy: decoding constraints.
        options: all other settings.
        judged: as of ``Drafter``.
        native: the native library's description of it, where it decodes chains.
        planning: decides how much to draft, where the output does not depend on it; None for whole
            drafts.
        history: how drafts were accepted so far; None where each batch begins anew.
    """

    verifier: Verifier
    drafter: ReadyDrafter
    read_hidden_states: bool
    search: Search
    policy: DecodingConstraints
    options: DecodingOptions
    judged: bool = False
    native: Optional[NativeForm] = None
    planning: Optional[Planning] = None
    history: Optional[History] = None

    def open_drafts(self, source: Source) -> DraftSession:
        """The drafter's session for a batch; of a model that may be left out, once it is needed."""
        runs_model = isinstance(self.planning, Planner) and self.planning.again > 1
        return DeferredSession(self.drafter, source) if runs_model else self.drafter.open(source)

    def budget(self) -> DraftBudget:
        """How much to draft, for one batch."""
        return DraftBudget(self.planning, self.history, self.judged)
