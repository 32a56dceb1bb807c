"""The hypothesis dictionaries that fairseq's tools expect."""

from __future__ import annotations

from collections.abc import Sequence
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
        beam: beam search: what the pass did; a ``beam.observed.BeamPass``.
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
    beam: Any = None


class History(Sequence):  # type: ignore[type-arg]
    """``history`` of a hypothesis: made when read, as few callers do.

    Args:
        trace: its iterations.
    """

    def __init__(self, trace: List[Iteration]) -> None:
        self._trace = trace

    def __len__(self) -> int:
        return 2 * len(self._trace)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number, second = divmod(range(len(self))[index], 2)
        part = self._trace[number]
        with torch.inference_mode(False):  # callers may write to the tensors
            return {
                "iteration": number,
                "accepted": part.accepted,
                "kind": "emitted" if second else "draft",
                "tokens": torch.tensor(part.emitted if second else part.draft, dtype=torch.long),
            }


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
    return {
        "tokens": tokens,
        "score": score,
        "attention": torch.empty(0),
        "alignment": torch.empty(0),
        "positional_scores": positional_scores,
        "steps": iterations,
        "history": History(trace),
        "iterations": trace,
    }
