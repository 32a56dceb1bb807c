"""How hypotheses grow after a draft was scored."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.scores import Scores


class Step(NamedTuple):
    """What an iteration added.

    Attributes:
        sizes: long [B], tokens added, 1 .. N + 1.
        done: bool [B], whether the sentence ended.
        accepted: long [B], draft tokens among those added.
        broken: bool [B], whether a token was added that has no log-probability.
        emitted: long [B, N + 1]; the first ``sizes`` of each row were added.
    """

    sizes: Tensor
    done: Tensor
    accepted: Tensor
    broken: Tensor
    emitted: Tensor


def advance(
    rule: AcceptanceRule,
    hypotheses: Hypotheses,
    draft: Draft,
    scores: Scores | None,
    eos: int,
    ended: Tensor | None = None,
) -> Step:
    """Greedy search: add to every hypothesis the accepted draft tokens and the bonus token.

    Args:
        rule: of the batch; accepts draft tokens.
        hypotheses: changed in place; columns for N + 1 more tokens are there.
        draft: N draft tokens per row.
        scores: of N + 1 entries; None where all rows have ended.
        eos: the token that ends a sentence.
        ended: bool [B], rows that their draft ends, unverified, with the drafter's scores; or None.
    """
    counts = next_token = draft.sizes
    if scores is not None:
        counts, next_token = rule.accept(draft, scores)
        if draft.width == 0:
            return _one_token(hypotheses, next_token, counts, scores, eos)
    if ended is not None:
        counts = torch.where(ended, draft.sizes, counts)
    columns = torch.arange(draft.width + 1, device=counts.device)
    bonus = next_token.unsqueeze(1)
    emitted = torch.cat([draft.tokens, bonus], 1).scatter_(1, counts.unsqueeze(1), bonus)
    sizes, done = emitted_sizes(emitted, counts, eos)
    # Columns after the emitted ones are overwritten by later iterations.
    after = hypotheses.lengths.unsqueeze(1) + columns
    hypotheses.write(after + 1, emitted)
    if not emitted.is_cuda:  # there it would cost a synchronisation
        columns = columns[: int(sizes.max())]
    reached = columns.size(0)
    verified = None if scores is None else scores.of(emitted[:, :reached])
    if ended is None or draft.scores is None:
        assert verified is not None
        own = verified
    else:
        own = F.pad(draft.scores, (0, 1))[:, :reached]
        own = own if verified is None else torch.where(ended.unsqueeze(1), own, verified)
    hypotheses.write_scores(after[:, :reached], own)
    hypotheses.lengths = hypotheses.lengths + sizes
    # Neither NaN nor -inf is a token's log-probability.
    broken = ((columns < sizes.unsqueeze(1)) > (own > float("-inf"))).any(1)
    return Step(sizes, done, torch.minimum(counts, sizes), broken, emitted)


def _one_token(
    hypotheses: Hypotheses, token: Tensor, none: Tensor, scores: Scores, eos: int
) -> Step:
    """What ``advance`` does without a draft (``token`` and ``none``, zeros: long [B])."""
    emitted, after = token.unsqueeze(1), hypotheses.lengths
    hypotheses.lengths = after + 1
    own = scores.of(emitted)
    hypotheses.write(hypotheses.lengths.unsqueeze(1), emitted)
    hypotheses.write_scores(after.unsqueeze(1), own)
    broken = ~(own > float("-inf")).squeeze(1)
    return Step(none + 1, token == eos, none, broken, emitted)


def emitted_sizes(emitted: Tensor, counts: Tensor, eos: int) -> tuple[Tensor, Tensor]:
    """How many tokens an iteration adds; </s> accepted inside a draft ends the sentence there.

    Args:
        emitted: long [B, K+1], accepted tokens, the bonus token, then anything.
        counts: long [B], accepted tokens.

    Returns:
        (long [B], 1 .. K+1; bool [B], whether the sentence ended).
    """
    width = emitted.size(1)
    columns = torch.arange(width, device=emitted.device)
    first = torch.where(emitted == eos, columns, width).amin(1)
    return torch.minimum(first, counts) + 1, first <= counts
