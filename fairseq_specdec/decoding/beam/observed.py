"""What one pass of a beam search did to a sentence, for traces."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

from .beams import Beams, Progress


class LiveHypothesis(NamedTuple):
    """A hypothesis that goes on.

    Attributes:
        tokens: from the first one.
        waits: it is not scored: the replay stopped since what follows it is not known.
    """

    tokens: List[int]
    waits: bool


class DraftedPrefix(NamedTuple):
    """A drafted prefix that no longer one begins with.

    Attributes:
        tokens: from the first one.
        known: the first ones that were not drafted in this pass.
        kept: the drafted ones after them that lead to a hypothesis, or follow a live one.
    """

    tokens: List[int]
    known: int
    kept: int


class BeamPass(NamedTuple):
    """A pass of the verifier, and the steps of the search that it decided.

    Attributes:
        steps: of the search.
        scored: prefixes.
        drafted: those of them that the search did not wait for.
        used: drafted prefixes, of this pass or one before, that hypotheses came to in these steps.
        hypotheses: live after the pass, best first.
        draft: the longest drafted prefixes.
    """

    steps: int
    scored: int
    drafted: int
    used: int
    hypotheses: List[LiveHypothesis]
    draft: List[DraftedPrefix]


def observed(beams: Beams, row: int, before: Progress, now: Progress) -> BeamPass:
    """What the last pass did.

    Args:
        beams: the searches, after the pass.
        row: of the sentence.
        before, now: its progress before and after the pass.
    """
    live = [] if now.done else beams.live(row)
    ended = [one.tokens for one in beams.ended(row)]
    kept: Dict[Tuple[int, ...], bool] = {}
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
