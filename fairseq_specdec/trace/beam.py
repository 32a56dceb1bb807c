"""A pass of beam search in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence


@dataclass(frozen=True)
class LiveHypothesis:
    """A hypothesis that goes on after the pass.

    Attributes:
        tokens: after ``TracedIteration.position``.
        waits: the search stopped since it is not known what follows this one.
    """

    tokens: List[str]
    waits: bool


@dataclass(frozen=True)
class DraftedPrefix:
    """A drafted prefix that no longer one begins with.

    Attributes:
        tokens: after ``TracedIteration.position``.
        known: the first ones that this pass did not draft.
        kept: the drafted ones after them that lead to a hypothesis, or follow a live one.
    """

    tokens: List[str]
    known: int
    kept: int


@dataclass(frozen=True)
class TracedBeam:
    """What a pass scored, and what the search then did: a ``BeamPass`` of the decoder (see
    ``decoding.beam.observed``) with words in place of token ids."""

    steps: int
    scored: int
    drafted: int
    used: int
    hypotheses: List[LiveHypothesis]
    draft: List[DraftedPrefix]

    @classmethod
    def told(cls, part: Any, position: int, words: Sequence[str]) -> TracedBeam:
        """A ``decoding.results.BeamPass`` in words, from ``position`` tokens on."""

        def after(tokens: Sequence[int]) -> List[str]:
            return [words[token] for token in tokens[position:]]

        return cls(
            part.steps,
            part.scored,
            part.drafted,
            part.used,
            [LiveHypothesis(after(one.tokens), one.waits) for one in part.hypotheses],
            [
                DraftedPrefix(after(one.tokens), max(0, one.known - position), one.kept)
                for one in part.draft
            ],
        )

    @classmethod
    def from_plain(cls, plain: Dict[str, Any]) -> TracedBeam:
        """Read what ``dataclasses.asdict`` made of one.

        Raises:
            TypeError: it is something else.
        """
        counts = ("steps", "scored", "drafted", "used")
        live = [LiveHypothesis(**one) for one in plain.pop("hypotheses")]
        drafts = [DraftedPrefix(**one) for one in plain.pop("draft")]
        found = cls(hypotheses=live, draft=drafts, **plain)
        numbers = [getattr(found, name) for name in counts]
        numbers += [number for one in drafts for number in (one.known, one.kept)]
        lists = [one.tokens for one in (*live, *drafts)]
        sound = (
            all(isinstance(number, int) and number >= 0 for number in numbers)
            and all(isinstance(one, list) for one in lists)
            and all(isinstance(word, str) for one in lists for word in one)
            and all(isinstance(one.waits, bool) for one in live)
            and all(one.known + one.kept <= len(one.tokens) for one in drafts)
        )
        if not sound:
            raise TypeError("a beam of another type")
        return found
