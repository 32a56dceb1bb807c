"""The hypothesis dictionaries that fairseq's tools expect."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor


class Iteration(NamedTuple):
    """One draft-then-verify round of one sentence.

    Attributes:
        draft: token ids given to the verifier.
        accepted: how many of them entered the output.
        emitted: token ids that the round added to the output.
        choices: the verifier's likeliest token at the position of each emitted one.
        position: tokens that the output had before.
        steps: passes of a small model that drafts token by token; 0 for other drafters.
        rows: sentences that shared the round.
        seconds: wall time of the round, for all its rows together: all of it, drafting,
            verification.
        live: beam search: hypotheses that go on after the round; None where it is not told.
    """

    draft: List[int]
    accepted: int
    emitted: List[int]
    choices: List[int]
    position: int
    steps: int
    rows: int
    seconds: Tuple[float, float, float]
    live: Optional[int] = None


def hypothesis(
    tokens: Tensor,
    positional_scores: Tensor,
    iterations: int,
    normalize: bool,
    len_penalty: float,
    trace: List[Iteration],
) -> Dict[str, Any]:
    """What stock ``finalize_hypos`` would return for this sentence, and the iterations.

    Args:
        tokens: long [T], the output with its </s>; not shared with other hypotheses.
        positional_scores: float [T] log-probability of each token; the command line divides it
            in place, so it must not be shared either.
        iterations: verification passes.
        normalize: divide the score by length ** ``len_penalty``.
        len_penalty: ``--lenpen``.
        trace: rounds, where they were recorded. ``iterations`` holds them as they are, and
            ``history`` as ``--retain-iter-history`` prints them, two E-lines each: the draft
            and what was emitted.
    """
    score = positional_scores.sum()
    if normalize:
        score = score / tokens.numel() ** len_penalty
    history = []
    for i, part in enumerate(trace):
        facts = {"iteration": i, "accepted": part.accepted}
        history.append(dict(facts, kind="draft", tokens=torch.tensor(part.draft).long()))
        history.append(dict(facts, kind="emitted", tokens=torch.tensor(part.emitted).long()))
    return {
        "tokens": tokens,
        "score": score,
        "attention": torch.empty(0),
        "alignment": torch.empty(0),
        "positional_scores": positional_scores,
        "steps": iterations,
        "history": history,
        "iterations": trace,
    }
