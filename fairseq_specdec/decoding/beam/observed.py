"""What one pass of a beam search did to a sentence, for traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .beams import Beams, Progress


@dataclass(frozen=True)
class LiveHypothesis:
    """A hypothesis that goes on after the pass."""

    tokens: list[Any]  # from the first one; in words, after ``TracedIteration.position``
    waits: bool  # it is not scored: the search stopped since what follows it is not known


@dataclass(frozen=True)
class DraftedPrefix:
    """A drafted prefix that no longer one begins with."""

    tokens: list[Any]  # from the first one; in words, after ``TracedIteration.position``
    known: int  # the first ones that were not drafted in this pass
    kept: int  # the drafted ones after them that lead to a hypothesis, or follow a live one


@dataclass(frozen=True)
class BeamPass:
    """A pass of the verifier, and the steps of the search that it decided; in ids or words."""

    steps: int  # of the search
    scored: int  # prefixes
    drafted: int  # those of them that the search did not wait for
    # drafted prefixes, of this pass or one before, that hypotheses came to in these steps
    used: int
    hypotheses: list[LiveHypothesis]  # live after the pass, best first
    draft: list[DraftedPrefix]  # the longest drafted prefixes

    def in_words(self, position: int, words: Sequence[str]) -> BeamPass:
        """The same in words (by token id), from ``position`` tokens on."""

        def after(tokens: Sequence[int]) -> list[str]:
            return [words[token] for token in tokens[position:]]

        live = [LiveHypothesis(after(one.tokens), one.waits) for one in self.hypotheses]
        draft = [
            DraftedPrefix(after(one.tokens), max(0, one.known - position), one.kept)
            for one in self.draft
        ]
        return replace(self, hypotheses=live, draft=draft)


def observed(beams: Beams, row: int, before: Progress, now: Progress) -> BeamPass:
    """What the last pass did."""
    live = [] if now.done else beams.live(row)
    ended = [one.tokens for one in beams.ended(row)]
    kept: dict[tuple[int, ...], bool] = {}
    for prefix in beams.draft(row):
        leads = any(one[: len(prefix.tokens)] == prefix.tokens for one in ended)
        kept[tuple(prefix.tokens)] = leads or (prefix.kept and not now.done)
    inner = {tokens[:-1] for tokens in kept}
    drafts = []
    for tokens in kept:
        if tokens not in inner:
            own = [tokens[:size] for size in range(1, len(tokens) + 1) if tokens[:size] in kept]
            stay = sum(kept[one] for one in own)
            drafts.append(DraftedPrefix(list(tokens), len(tokens) - len(own), stay))
    return BeamPass(
        now.steps - before.steps,
        now.scored - before.scored,
        now.drafted - before.drafted,
        now.used - before.used,
        [LiveHypothesis(prefix.tokens, not prefix.scored) for prefix in live],
        drafts,
    )
