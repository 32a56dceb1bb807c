"""Initial states of a drafter's masks, copied from the source."""

import torch
from torch import Tensor, nn

SourceState = tuple[Tensor, ...]


class SourceCopy(nn.Module):
    """Initial states for the masks: a soft copy of the source's embeddings.

    The mask at position i attends, before any layer, to source position j with the weight
    a_ij = softmax_j((W p_i) . (E[src_j] + P_j)) and starts from the sum of a_ij E[src_j], scaled as
    a token is. p_i is the mask's positional embedding, E and P are the encoder's. W starts as
    identity / sqrt(C), for which sinusoidal positions already favour the diagonal. A learnt version
    of the source copies of non-autoregressive translation (Gu et al. 2018, section 3.1).

    Args:
        encoder: a ``TransformerEncoder`` with positional embeddings; its tables are shared.
    """

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.embed_tokens = encoder.embed_tokens
        self.embed_positions = encoder.embed_positions
        self.embed_scale = encoder.embed_scale
        self.padding_idx = encoder.padding_idx
        dim = encoder.embed_tokens.embedding_dim
        self.query_proj = nn.Linear(dim, dim, bias=False)
        with torch.no_grad():
            self.query_proj.weight.copy_(torch.eye(dim) * dim**-0.5)

    def start(self, src_tokens: Tensor) -> SourceState:
        """Keys [B, S, C], values [B, S, C] and padding (bool [B, S]) of a source long [B, S]."""
        embedded = self.embed_tokens(src_tokens)
        keys = embedded + self.embed_positions(src_tokens)
        return keys, self.embed_scale * embedded, src_tokens.eq(self.padding_idx)

    def forward(self, mask_positions: Tensor, source_state: SourceState) -> Tensor:
        """Copied states [B, K, C] for masks with the positional embeddings [B, K, C]."""
        keys, values, padding = source_state
        scores = torch.bmm(self.query_proj(mask_positions), keys.transpose(1, 2)).float()
        scores = scores.masked_fill(padding[:, None, :], float("-inf"))
        return torch.bmm(torch.softmax(scores, dim=-1).to(values.dtype), values)
