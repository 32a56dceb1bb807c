"""The tokens of a draft, from the features and logits of parallel masks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_specdec.engine.state import ascending
from fairseq_specdec.engine.torch_layers import Linear

from .base import DraftOptions

logger = logging.getLogger(__name__)

Tables = tuple[Tensor, Tensor, Tensor]

# Candidates of the chain at each mask: for one row, and for each of several rows, where the time of
# more candidates for all rows exceeds that of an iteration saved in one row.
_CANDIDATES = (64, 32)


def chain_candidates(options: DraftOptions) -> tuple[int, int]:
    """Candidates of the chain at each mask: for one row, and for each of several rows."""
    return (_CANDIDATES[0],) * 2 if options.row_independent else _CANDIDATES


def chain_tables(decoder: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The products of a chain with the vocabulary, in fp32; their rows are looked up.

    Args:
        decoder: a ``BlockDecoder`` with a chain, H wide.

    Returns:
        [V, H], what each token adds to the next state; [H, H], what a state adds to the next one is
        its product with the transpose; [V, H], whose product with a state is the logit bonus of
        each token.
    """
    chain, dim = decoder.chain, decoder.embed_dim
    of_past = chain.of_past.weight.detach().float()
    embeddings = decoder.embed_tokens.weight.detach().float()
    of_token = decoder.embed_scale * embeddings @ of_past[:, :dim].t()
    projection = decoder.output_projection.weight.detach().float()
    return of_token, of_past[:, dim:], projection @ chain.out.weight.detach().float()


def chain_steps(
    of_mask: Tensor,
    bonuses: Tensor,
    candidates: Tensor,
    previous: Tensor,
    tables: Tables,
    judges: bool,
) -> tuple[Tensor, Tensor | None]:
    """Run a chain from the left over the candidates of each mask.

    Args:
        of_mask: float [B, K, H], what each mask adds to the state.
        bonuses: [B, K, m], the candidates' logits.
        candidates: long [B, K, m].
        previous: long [B], the token before the block.
        tables: those that ``chain_tables`` gives, contiguous, the second one transposed, the third
            in any dtype.

    Returns:
        Long [B, K]; and where ``judges`` their probabilities among the candidates, float
        [B, K], each after the tokens before it. The first of equally good candidates is chosen.

    To start few kernels, what any candidate gives to the next state is looked up at once, and a
    chosen one is known by its rank until the end.
    """
    of_token, of_state, for_token = tables
    # [B, K, m, H], what turns a state into logit bonuses.
    rows = nn.functional.embedding(candidates, for_token).float()
    known = of_mask[:, 0] + nn.functional.embedding(previous, of_token)
    following = nn.functional.embedding(candidates[:, :-1], of_token)
    following += of_mask[:, 1:].unsqueeze(2)
    bonus = bonuses.float().unsqueeze(3)
    ranks: list[Tensor] = []
    chances: list[Tensor] = []
    for place in range(candidates.size(1)):
        state = torch.tanh(known)
        total = torch.baddbmm(bonus[:, place], rows[:, place], state.unsqueeze(2)).squeeze(2)
        if judges:
            chance, rank = torch.softmax(total, 1).max(1, keepdim=True)
            chances.append(chance)
        else:
            rank = total.argmax(1, keepdim=True)
        ranks.append(rank)
        if place + 1 < candidates.size(1):
            at = rank.unsqueeze(2).expand(-1, 1, state.size(1))
            chosen = following[:, place].gather(1, at).squeeze(1)
            known = torch.addmm(chosen, state, of_state)
    tokens = candidates.gather(2, torch.stack(ranks, 1)).squeeze(2)
    return tokens, torch.cat(chances, 1) if judges else None


def steps_on(device: torch.device) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """``chain_steps``, or the same in one kernel where Triton is installed and builds for this GPU
    (capability 7.0 or higher)."""
    on_gpu = device.type == "cuda" and torch.cuda.is_available()  # tests pretend a GPU
    if not on_gpu or torch.cuda.get_device_capability(device) < (7, 0) or not find_spec("triton"):
        return chain_steps
    from .chain_kernel import chain_steps as in_one_kernel

    return in_one_kernel


class ChainSearch:
    """Runs a ``ChainHead`` from the left over the best tokens of each mask, in fp32.

    Args:
        decoder: a ``BlockDecoder`` with a chain.
        candidates: m, tokens of each mask to choose among: of a row alone, and of each of several.
    """

    def __init__(self, decoder: Any, candidates: tuple[int, int]) -> None:
        of_mask = decoder.chain.of_mask
        self.of_mask = Linear(of_mask.weight.float(), of_mask.bias.float())
        of_token, of_state, for_token = chain_tables(decoder)
        # In 16 bits hundreds of rows are looked up with half the bytes.
        for_token = for_token.to(decoder.output_projection.weight.dtype)
        self.tables = of_token, of_state.t().contiguous(), for_token
        self.candidates = candidates
        self.steps = steps_on(of_token.device)
        if self.steps is not chain_steps:
            self._try_kernel()

    def _try_kernel(self) -> None:
        """Build the kernel for the numbers of candidates; where that fails, use torch."""
        of_token, _, for_token = self.tables
        of_mask = of_token.new_zeros(1, 2, of_token.size(1))
        try:
            for count in {min(each, len(of_token)) for each in self.candidates}:
                bonuses = for_token.new_zeros(1, 2, count)
                zeros = bonuses.long()
                self.steps(of_mask, bonuses, zeros, zeros[0, 0, :1], self.tables, False)
        except Exception as error:  # whatever a compiler or a driver raises
            reason = str(error).strip().partition("\n")[0]
            logger.warning("the drafter's chain runs without its Triton kernel (%s)", reason)
            self.steps = chain_steps

    def judged(
        self, features: Tensor, logits: Tensor, previous: Tensor, judges: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """Choose the tokens of a block.

        Args:
            features: [B, K, C], the masks'.
            logits: [B, K, V], of the masks alone.
            previous: long [B], the token before the block.

        Returns:
            As ``chain_steps``.
        """
        count = self.candidates[0 if features.size(0) == 1 else 1]
        best, candidates = logits.topk(min(count, logits.size(-1)), dim=-1)
        of_mask = self.of_mask(features.float())
        return self.steps(of_mask, best, candidates, previous, self.tables, judges)


def likeliest(logits: Tensor, judges: bool) -> tuple[Tensor, Tensor | None]:
    """The best token of each mask, long [B, K], of logits [B, K, V]; and where ``judges`` their
    probabilities, float [B, K]."""
    if not judges:
        return logits.argmax(-1), None
    return logits.argmax(-1), torch.softmax(logits, -1, dtype=torch.float32).amax(-1)


def shortened(
    tokens: Tensor,
    chances: Tensor | None,
    confidence: float,
    costs: Sequence[float] | None = None,
    whole: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many tokens of each row's draft to keep.

    Args:
        tokens: long [B, K].
        chances: [B, K], of each token to be right if those before it are; None to keep all tokens.
        confidence: keep tokens that are right, with all before them, with at least this.
        costs: ``Plan.costs``: of those keep as many as are expected to be accepted most above the
            cost; None for all.
        whole: give all K tokens, as on a GPU, where to look up the lengths would wait for it.

    Returns:
        (tokens long [B, K'], lengths long [B]); K' is the largest length, unless ``whole``.
    """
    if chances is None:
        rows, size = tokens.shape
        return tokens, ascending(1, tokens.device, size).expand(rows)
    reached = chances.cumprod(1)
    sure = reached >= confidence
    if costs is None:
        counts = sure.sum(1)
    else:
        cost = reached.new_tensor(costs[1 : reached.size(1) + 1])
        gains = (reached.cumsum(1) - cost).masked_fill(~sure, float("-inf"))
        counts = torch.cat([torch.zeros_like(gains[:, :1]), gains], 1).argmax(1)
    if not whole and not tokens.is_cuda:
        tokens = tokens[:, : int(counts.max())]
    return tokens, counts
