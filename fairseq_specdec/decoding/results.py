"""The hypothesis dictionaries that fairseq's tools expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .iteration import Iteration, TracedIteration, verdicts
from .options import DecodingOptions


class SentenceTrace(Sequence):  # type: ignore[type-arg]
    """The iterations of one sentence, each a ``TracedIteration`` that is made when it is read.

    Attributes:
        accepted: of each iteration, how many draft tokens entered the output.
        drafts: the token ids given to the verifier.
        emitted: the token ids added to the output.

    Args:
        iterations: of the batch, from its first one to the sentence's last one; none without a
            trace.
        sentence: its number in the batch.
        sampled: draft tokens are kept by speculative sampling.
    """

    def __init__(
        self, iterations: Sequence[Iteration] = (), sentence: int = 0, sampled: bool = False
    ) -> None:
        at = [(one, one.rows.index(sentence)) for one in iterations]
        self.sampled = sampled
        self.accepted = [one.accepted[row] for one, row in at]
        self.drafts = [one.drafts[row] for one, row in at]
        self.emitted = [one.emitted[row] for one, row in at]
        self._choices = [
            one.choices[row] if one.choices and not any(one.unverified[row : row + 1]) else None
            for one, row in at
        ]
        self._shared = [(one.passes, len(one.rows), one.seconds) for one, _ in at]
        self._beams = [one.beam[row] for one, row in at if one.beam]

    def __len__(self) -> int:
        return len(self.emitted)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        draft, accepted, emitted = self.drafts[number], self.accepted[number], self.emitted[number]
        choices, (steps, rows, seconds) = self._choices[number], self._shared[number]
        whole, drafting, verifying = [round(1000 * each, 4) for each in seconds]
        times = (whole, drafting, verifying)
        position = sum(map(len, self.emitted[:number]))
        if self._beams or choices is None:
            beam = self._beams[number] if self._beams else None
            live = None if beam is None else len(beam.hypotheses)
            steps = 0 if self._beams else steps
            return TracedIteration(
                position, [], [], [], None, steps, rows, *times, emitted, live, beam
            )
        own = emitted[accepted] if len(emitted) > accepted else None
        marks = verdicts(draft, accepted, emitted, choices, self.sampled)
        return TracedIteration(position, draft, marks, choices, own, steps, rows, *times)


class History(Sequence):  # type: ignore[type-arg]
    """``history`` of a hypothesis: made when read, as few callers do."""

    def __init__(self, trace: SentenceTrace) -> None:
        self._trace = trace

    def __len__(self) -> int:
        return 2 * len(self._trace)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number, second = divmod(range(len(self))[index], 2)
        tokens = (self._trace.emitted if second else self._trace.drafts)[number]
        with torch.inference_mode(False):  # callers may write to the tensors
            return {
                "iteration": number,
                "accepted": self._trace.accepted[number],
                "kind": "emitted" if second else "draft",
                "tokens": torch.tensor(tokens, dtype=torch.long),
            }


def hypothesis(
    tokens: Tensor,
    positional_scores: Tensor,
    iterations: int,
    options: DecodingOptions,
    trace: SentenceTrace,
) -> dict[str, Any]:
    """What stock ``finalize_hypos`` would return for this sentence, and the iterations.

    Args:
        tokens: long [T], the output with its </s>; not shared with other hypotheses.
        positional_scores: float [T] log-probability of each token; the command line divides it
            in place, so it must not be shared either.
        iterations: verification passes.
        options: whether the score is divided by length ** ``len_penalty``.
        trace: of the sentence; empty where nothing was recorded. ``iterations`` holds it, and
            ``history`` as ``--retain-iter-history`` prints it, two E-lines for each iteration: the
            draft and what was emitted.
    """
    score = positional_scores.sum()
    if options.normalize_scores:
        score = score / tokens.numel() ** options.len_penalty
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
