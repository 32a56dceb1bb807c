"""Keep a draft token only where it is the verifier's own choice."""

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft

from .base import Acceptance, AcceptanceRule, NativeRule, judged


class ExactRule(AcceptanceRule):
    """Top-1 match (Ge et al. 2022, equations 5 and 7; Stern et al. 2018, section 3).

    Whatever is drafted, the output is the verifier's greedy output.
    """

    lossless = True
    draft_independent = True
    keeps_forced = True

    def native_form(self) -> NativeRule:
        return NativeRule()

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        best = scores.best()
        return judged(draft.tokens == best[:, :-1], draft.sizes, best)
