"""What one pass of a beam search did to a sentence, for traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

Prefix = tuple[list[int], bool, bool]
"""A prefix of outputs: its tokens, whether it is scored (what may follow is known), and whether it
leads to a live hypothesis or follows one."""


@dataclass(frozen=True)
class LiveHypothesis:
    """A hypothesis that is live after the pass."""

    tokens: list[Any]  # from the first one; as text, after ``TracedIteration.position``
    waits: bool  # it is not scored: the search stopped since what follows it is not known


@dataclass(frozen=True)
class DraftedPrefix:
    """A drafted prefix that no longer one begins with."""

    tokens: list[Any]  # from the first one; as text, after ``TracedIteration.position``
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

    @classmethod
    def of(
        cls, counts: list[int], live: list[Prefix], draft: list[Prefix], ended: list[list[int]]
    ) -> BeamPass:
        """What a pass did to a sentence.

        Args:
            counts: ``steps``, ``scored``, ``drafted`` and ``used``.
            live: its hypotheses after the pass; none if it is done.
            draft: what the pass scored though nothing waited for it, parents first.
            ended: the tokens of all hypotheses that have ended.
        """
        chains: dict[tuple[int, ...], tuple[int, int]] = {}  # how many are known, and kept
        for tokens, _, leads in draft:
            ends = any(one[: len(tokens)] == tokens for one in ended)
            known, kept = chains.get(tuple(tokens[:-1]), (len(tokens) - 1, 0))
            chains[tuple(tokens)] = known, kept + (ends or (leads and len(live) > 0))
        inner = {path[:-1] for path in chains}
        drafts = [
            DraftedPrefix([*path], *each) for path, each in chains.items() if path not in inner
        ]
        hypotheses = [LiveHypothesis(tokens, not scored) for tokens, scored, _ in live]
        steps, scored, drafted, used = counts
        return cls(steps, scored, drafted, used, hypotheses, drafts)

    def in_words(self, position: int, words: Sequence[str]) -> BeamPass:
        """The same with the text of each token id, from ``position`` tokens on."""

        def after(tokens: Sequence[int]) -> list[str]:
            return [words[token] for token in tokens[position:]]

        live = [replace(one, tokens=after(one.tokens)) for one in self.hypotheses]
        draft = [
            replace(one, tokens=after(one.tokens), known=max(0, one.known - position))
            for one in self.draft
        ]
        return replace(self, hypotheses=live, draft=draft)
