"""Keep a draft token that is among the verifier's best few and close to its best."""

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft

from .base import Acceptance, AcceptanceRule, NativeRule, judged


class TopBetaRule(AcceptanceRule):
    """Relaxed verification (Ge et al. 2022, equations 8 and 9; Xia et al. 2023, section 3.2).

    Args:
        top_beta: a draft token must be among the ``top_beta`` best tokens, 1 or more.
        tau: and at most this far (natural log) below the best one, 0 or more.
    """

    lossless = False
    keeps_forced = True

    def __init__(self, top_beta: int, tau: float) -> None:
        self.top_beta = top_beta
        self.tau = tau

    def native_form(self) -> NativeRule:
        return NativeRule(self.top_beta, self.tau)

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        best, tokens = scores.best(), draft.tokens
        matches = tokens == best[:, :-1]
        gap = scores.gap(tokens)
        near = (gap <= self.tau) & (gap < float("inf"))
        # Only these depend on the rank, and hardly any of them is reached.
        asked = near & ~matches & (near | matches).cumprod(1).bool()
        kept = matches | scores.among_best(tokens, self.top_beta, asked)
        return judged(kept, draft.sizes, best)
