"""Decoding with a chain: the tokens of a block, chosen from the left."""

from __future__ import annotations

from typing import Any, List, Tuple

import torch
from torch import Tensor, nn

from fairseq_specdec.verifier.linear import Linear


class ChainSearch:
    """Runs a ``ChainHead`` from the left over the best tokens of each mask, in fp32.

    What a token contributes to the next state is looked up in a table made once.

    Args:
        decoder: a ``BlockDecoder`` with a chain.
        candidates: m, tokens of each mask to choose among.
    """

    def __init__(self, decoder: Any, candidates: int) -> None:
        chain = decoder.chain
        dim = decoder.embed_dim
        of_past = chain.of_past.weight.detach().float()
        embeddings = decoder.embed_tokens.weight.detach().float()
        self.of_token = decoder.embed_scale * embeddings @ of_past[:, :dim].t()
        self.of_state = of_past[:, dim:].t().contiguous()
        self.of_mask = Linear(chain.of_mask.weight.float(), chain.of_mask.bias.float())
        self.out = chain.out.weight.detach().float().t().contiguous()
        self.width = chain.width
        self.candidates = candidates
        self.projection = decoder.output_projection.weight.detach()

    def __call__(
        self, features: Tensor, logits: Tensor, previous: Tensor, confidence: float = 0.0
    ) -> Tuple[Tensor, Tensor]:
        """Choose the tokens of a block.

        Args:
            features: [B, K, C], the masks'.
            logits: [B, K, V], of the masks alone.
            previous: long [B], the token before the block.
            confidence: end a row before the first token whose probability among the candidates,
                times those of the tokens before it, is below this; 0 for never.

        Returns:
            (tokens long [B, K'], lengths long [B]). K' is K, or less where the processor can tell
            for nothing that all rows have ended.
        """
        scores, candidates = logits.topk(min(self.candidates, logits.size(-1)), dim=-1)
        rows = nn.functional.embedding(candidates, self.projection).float()  # [B, K, m, C]
        of_mask = self.of_mask(features.float())
        state = of_mask.new_zeros(features.size(0), self.width)
        reached = of_mask.new_ones(features.size(0), 1)
        token = previous
        chosen: List[Tensor] = []
        sure: List[Tensor] = []
        # Every operation on a few numbers costs its call: as few as can be.
        for mask, score, row, choices in zip(
            of_mask.unbind(1),
            scores.float().unsqueeze(3).unbind(1),
            rows.unbind(1),
            candidates.unbind(1),
        ):
            known = mask + nn.functional.embedding(token, self.of_token)
            state = torch.tanh(torch.addmm(known, state, self.of_state))
            say = torch.mm(state, self.out).unsqueeze(2)
            total = torch.baddbmm(score, row, say).squeeze(2)
            if confidence > 0:
                chance, best = torch.softmax(total, 1).max(1, keepdim=True)
                reached = reached * chance
                sure.append(reached >= confidence)
                if not total.is_cuda and not bool(sure[-1].any()):
                    sure.pop()
                    break
            else:
                best = total.argmax(1, keepdim=True)
            token = choices.gather(1, best).squeeze(1)
            chosen.append(token)
        if not chosen:
            return candidates.new_zeros(features.size(0), 0), torch.zeros_like(previous)
        tokens = torch.stack(chosen, 1)
        if confidence > 0:
            return tokens, torch.cat(sure, 1).sum(1)  # once below, always below
        return tokens, torch.full_like(previous, tokens.size(1))
