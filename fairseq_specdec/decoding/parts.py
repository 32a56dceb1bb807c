"""What decodes the batches of a generator."""

from __future__ import annotations

from typing import NamedTuple, Optional

from fairseq_specdec.drafting import ReadyDrafter
from fairseq_specdec.engine.verifier import Verifier

from .draft_budget import DraftBudget
from .native_form import NativeForm
from .options import DecodingOptions
from .pass_cost import PassCost
from .policy import DecodingConstraints
from .search import Search


class DecodingParts(NamedTuple):
    """What decodes a batch. Batches of many threads share it: nothing of it changes.

    Attributes:
        verifier: scores blocks.
        drafter: proposes them.
        read_hidden_states: the drafter is given the verifier's hidden states.
        search: decides what enters the hypotheses.
        policy: decoding constraints.
        options: all other settings.
        adaptive: drafts may be shortened and left out: the output does not depend on them.
        native: the native library's description of it, where it decodes chains.
        cost: of passes, where it decides how much to draft.
    """

    verifier: Verifier
    drafter: ReadyDrafter
    read_hidden_states: bool
    search: Search
    policy: DecodingConstraints
    options: DecodingOptions
    adaptive: bool
    native: Optional[NativeForm] = None
    cost: Optional[PassCost] = None

    def budget(self) -> DraftBudget:
        """How much to draft, for one batch."""
        if self.adaptive:
            options = self.options
            return DraftBudget(options.max_expected_rejections, options.pause_drafting, self.cost)
        return DraftBudget(None, False)
