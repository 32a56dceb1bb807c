"""A rule's verdict on draft tokens and log-probabilities."""

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft


def judge(rule, draft, sizes, log_probs, draft_log_probs=None):
    """What a rule returns (long [B, K], long [B], float [B, K + 1, V], float [B, K, V])."""
    scores = Scores(log_probs.clone(), normalised=True)  # it edits its tensor in place
    return rule.accept(Draft(draft, sizes, draft_log_probs), scores)
