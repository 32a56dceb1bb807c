"""What an iteration did: to all rows of a batch, in columns, and to one sentence, for traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

OWN = "own"
RELAXED = "relaxed"
DRAWN = "drawn"
REJECTED = "rejected"
UNSEEN = "unseen"

# What became of a draft token, and what that means.
VERDICTS: dict[str, str] = {
    OWN: "accepted: the verifier's own choice",
    RELAXED: "accepted by the relaxed rule: not the verifier's choice",
    DRAWN: "accepted by speculative sampling: not the verifier's likeliest token",
    REJECTED: "rejected",
    UNSEEN: "not judged: after a rejected token or the end",
}
ACCEPTED = (OWN, RELAXED, DRAWN)


class Iteration(NamedTuple):
    """An iteration of all live rows of a batch, in columns: entry r of a list is of row r."""

    sizes: Sequence[int]  # tokens added, 1 or more (in beam search, 0 or more)
    done: Sequence[int]  # whether the sentence ended
    accepted: Sequence[int]  # draft tokens among those added
    broken: Sequence[int]  # whether a token was added that has no log-probability
    proposed: Sequence[int]  # draft tokens verified
    passes: int = 0  # of a small model that drafts token by token; 0 for other drafters
    # wall time, for all rows together: all of it, drafting, verification; zeros where nothing was
    # timed; of several iterations the least verification alone
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)
    drafts: Sequence[list[int]] = ()  # the draft tokens. These columns are filled for traces only
    # the verifier's likeliest token at the position of each emitted one; not in beam search, nor
    # where nothing is verified
    choices: Sequence[list[int]] = ()
    # the tokens added; in beam search, those that all hypotheses now have
    emitted: Sequence[list[int]] = ()
    rows: Sequence[int] = ()  # numbers of the sentences in the batch
    forced: bool = False  # the draft was what the outputs must begin with, which no drafter made
    # so many such iterations one after the other; more than one only where nothing was drafted, no
    # sentence ended, and nothing is kept for traces
    times: int = 1
    # whether the draft was the rest of the sentence and none of it verified; empty: none was
    unverified: Sequence[bool] = ()


@dataclass(frozen=True)
class TracedIteration:
    """One draft-then-verify round of one sentence. Tokens are ids in the results of a generator,
    and words in the traces made from them.

    Attributes:
        position: tokens that the output had before.
        draft: tokens given to the verifier: of the drafter, or what the output must begin with.
        verdicts: a value of ``VERDICTS`` for each of them.
        choices: the verifier's likeliest token at each position that counted: those of the accepted
            tokens, and that of ``own``.
        own: the bonus token, after the accepted ones; None where an accepted </s> ended the
            sentence.
        steps: passes of a small model that drafts token by token (bild, sps); 0 for others.
        rows: sentences that shared the round; its times are for all of them together.
        ms: wall time in milliseconds.
        drafter_ms, verifier_ms: the shares of drafting and of verification.
        agreed: beam search: the tokens that all hypotheses have from here on, after ``position``;
            in the last round, the rest of the best hypothesis. Without a verifier, or where a small
            model ended the sentence (bild): the tokens that the round added. None elsewhere.
    """

    position: int
    draft: list[Any]
    verdicts: list[str]
    choices: list[Any]
    own: Any | None
    steps: int = 0
    rows: int = 1
    ms: float = 0.0
    drafter_ms: float = 0.0
    verifier_ms: float = 0.0
    agreed: list[Any] | None = None

    @property
    def accepted(self) -> int:
        """Draft tokens that entered the output."""
        return sum(verdict in ACCEPTED for verdict in self.verdicts)

    @property
    def emitted(self) -> list[Any]:
        """Tokens that the round added to the output."""
        if self.agreed is not None:
            return self.agreed
        return self.draft[: self.accepted] + ([] if self.own is None else [self.own])


def verdicts(
    draft: Sequence[Any],
    accepted: int,
    emitted: Sequence[Any],
    choices: Sequence[Any],
    sampled: bool = False,
) -> list[str]:
    """What became of each draft token.

    Args:
        draft: the tokens put before the verifier.
        accepted: how many of them entered the output.
        emitted: the tokens that entered it: the accepted ones, and the verifier's own one, unless
            an accepted </s> ended the sentence.
        choices: the verifier's likeliest token at the position of each of ``emitted``.
        sampled: tokens are kept by speculative sampling.

    Returns:
        A value of ``VERDICTS`` for each token of ``draft``.
    """
    other = DRAWN if sampled else RELAXED
    kept = [OWN if draft[i] == choices[i] else other for i in range(accepted)]
    left = len(draft) - accepted
    if left > 0 and len(emitted) > accepted:
        return kept + [REJECTED] + [UNSEEN] * (left - 1)
    return kept + [UNSEEN] * left


class SentenceTrace(Sequence[TracedIteration]):
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
        self._at = [(one, one.rows.index(sentence)) for one in iterations]
        self._sampled = sampled
        self.accepted = [one.accepted[row] for one, row in self._at]
        self.drafts = [one.drafts[row] for one, row in self._at]
        self.emitted = [one.emitted[row] for one, row in self._at]

    def __len__(self) -> int:
        return len(self._at)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        number = range(len(self))[index]
        one, row = self._at[number]
        draft, accepted, emitted = self.drafts[number], self.accepted[number], self.emitted[number]
        whole, drafting, verifying = [round(1000 * each, 4) for each in one.seconds]
        shared = (one.passes, len(one.rows), whole, drafting, verifying)
        position = sum(map(len, self.emitted[:number]))
        if not one.choices or any(one.unverified[row : row + 1]):
            return TracedIteration(position, [], [], [], None, *shared, emitted)
        choices, own = one.choices[row], emitted[accepted] if len(emitted) > accepted else None
        marks = verdicts(draft, accepted, emitted, choices, self._sampled)
        return TracedIteration(position, draft, marks, choices, own, *shared)

    def history(self) -> list[dict[str, Any]]:
        """As ``--retain-iter-history`` prints it, two E-lines for each iteration: the draft and
        what was emitted. Callers may write to the tensors."""
        columns = zip(self.accepted, self.drafts, self.emitted)
        with torch.inference_mode(False):
            return [
                {
                    "iteration": number,
                    "accepted": accepted,
                    "kind": kind,
                    "tokens": torch.tensor(tokens, dtype=torch.long),
                }
                for number, (accepted, *both) in enumerate(columns)
                for kind, tokens in zip(("draft", "emitted"), both)
            ]


UNTRACED = SentenceTrace()
"""The trace of a sentence that was not recorded."""
