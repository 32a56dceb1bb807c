"""The drafter's decoder: fairseq's own over [prefix | blocks of masks].

A decoding engine reads its weights like those of any stock decoder.
"""

from typing import Any

import torch
from fairseq.models.transformer.transformer_decoder import TransformerDecoderBase
from fairseq.modules import PositionalEmbedding, SinusoidalPositionalEmbedding
from torch import Tensor, nn

from ..training.block_noising import block_attention, block_positions, block_targets
from .chain_head import ChainHead
from .verifier_states import StateProjection

SourceState = tuple[Tensor, ...]


class SoftSourceCopy(nn.Module):
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


class BlockDecoder(TransformerDecoderBase):
    """Drafts blocks of k tokens in parallel, given the source and an accepted prefix.

    ``[MASK]`` is a learned vector of the drafter (``mask_embedding``), not a dictionary word, so
    that verifier and drafter share their dictionaries unchanged. Layout and attention are those of
    :mod:`fairseq_specdec.training.block_noising`.

    Class attributes:
        start_symbol: decoder position 0 holds the start symbol; without, the first token does.
        whole_blocks: blocks have k masks, whatever number pays; those after the last position of
            the table share it.

    Args:
        cfg: a ``SpecDrafterConfig``.
        embed_tokens: target embeddings, [V, C].
        source_copy: initial states of the masks from the source, or None.
        state_widths: (n, C) of the verifier's states that prefix and masks start from: n layers,
            each C wide; or None.
        projection: from features to logits, where it is not made here.
    """

    start_symbol = True
    whole_blocks = False
    embed_positions: Any

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        source_copy: SoftSourceCopy | None = None,
        state_widths: tuple[int, int] | None = None,
        projection: nn.Module | None = None,
    ):
        super().__init__(cfg, dictionary, embed_tokens, output_projection=projection)
        self.block_size: int = cfg.block_size
        self.num_cuts: int = cfg.num_cuts
        self.bidirectional_prefix: bool = cfg.bidirectional_prefix
        dim = self.embed_dim
        if self.embed_positions is not None and not self.whole_blocks:
            # The last block may start at the last position of a sentence: masks need room after it.
            places, learned = cfg.max_target_positions + cfg.block_size, cfg.decoder.learned_pos
            self.embed_positions = PositionalEmbedding(places, dim, self.padding_idx, learned)
        self.mask_embedding = nn.Parameter(torch.empty(dim).normal_(0, dim**-0.5))
        self.source_copy = source_copy
        self.prefix_states, self.mask_states = (
            None if state_widths is None else StateProjection(*state_widths, dim) for _ in range(2)
        )
        self.chain = ChainHead(dim, cfg.chain_width) if cfg.chain_width else None

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Add fairseq's number of the layout, which older drafters lack, in place (its hook)."""
        state_dict.setdefault(f"{name}.version", self.version)
        super().upgrade_state_dict_named(state_dict, name)

    @property
    def like(self) -> Tensor:
        """A tensor of the device and the number format of the computations."""
        like: Any = self.layers[0].fc1.bias
        return like

    def position_table(self, positions: Tensor) -> Tensor | None:
        """Positional embeddings [.., C] of 0-based ``positions`` (long [..]), or None.

        Positions past the table take its last row. Drafts there may be poor, which costs speed and
        never correctness.
        """
        table = self.embed_positions
        if table is None:
            return None
        if isinstance(table, SinusoidalPositionalEmbedding):
            like = self.like
            if table.weights.device != like.device or table.weights.dtype != like.dtype:
                table.weights = table.weights.to(like)  # some releases keep it out of the buffers
            weights = table.weights
        else:
            weights = table.weight
        rows = (positions + (self.padding_idx + 1)).clamp(max=weights.size(0) - 1)
        return nn.functional.embedding(rows, weights)

    def _finish_embedding(self, x: Tensor) -> Tensor:
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)

    def embed_prefix(self, tokens: Tensor, positions: Tensor, read: Tensor | None = None) -> Tensor:
        """States of known tokens before the first layer.

        Args:
            tokens: long [B, T].
            positions: long [B, T], 0-based decoder positions.
            read: [B, T, C], the projection by ``prefix_states`` of the verifier's states that
                predicted these tokens (nothing predicted the start symbol: zeros); or None.

        Returns:
            [B, T, C].
        """
        x = self.embed_scale * self.embed_tokens(tokens)
        if read is not None:
            x = x + read
        embedded = self.position_table(positions)
        return self._finish_embedding(x if embedded is None else x + embedded)

    def start_source(self, src_tokens: Tensor, positions: int = 0) -> SourceState | None:
        """What :meth:`embed_masks` needs of the source (long [B, S]), rows in dim 0; or None.

        Decoding uses at most so many ``positions``.
        """
        return None if self.source_copy is None else self.source_copy.start(src_tokens)

    def embed_masks(
        self, positions: Tensor, source_state: SourceState | None, read: Tensor | None = None
    ) -> Tensor:
        """States of masks before the first layer.

        Args:
            positions: long [B, K], 0-based decoder positions.
            source_state: from :meth:`start_source`, for the same B rows.
            read: [B, K or 1, C], the projection by ``mask_states`` of the states that predicted the
                last token before each mask's block; or None.

        Returns:
            [B, K, C].
        """
        x = (self.embed_scale * self.mask_embedding).expand(positions.shape + (self.embed_dim,))
        embedded = self.position_table(positions)
        if self.source_copy is not None:
            x = x + self.source_copy(embedded, source_state)
        if read is not None:
            x = x + read
        return self._finish_embedding(x if embedded is None else x + embedded)

    def embed_block(
        self,
        tokens: Tensor,
        token_positions: Tensor,
        mask_positions: Tensor,
        source_state: SourceState | None,
        read: Tensor | None = None,
        last: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Known tokens and, after them, masks, as decoding runs them.

        Arguments as for :meth:`embed_prefix` and :meth:`embed_masks` (whose ``read`` is ``last``).

        Returns:
            [B, T + K, C] before the first layer; and what to add before every further one, or None.
        """
        prefix = self.embed_prefix(tokens, token_positions, read)
        masks = self.embed_masks(mask_positions, source_state, last)
        return torch.cat([prefix, masks], 1), None

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]],
        cuts: Tensor,
        source_state: SourceState | None = None,
        targets: Tensor | None = None,
        revealed: Tensor | None = None,
        states: Tensor | None = None,
    ) -> Tensor:
        """Features of masks.

        Args:
            prev_output_tokens: long [B, T], ``</s>`` then the target without its last token,
                padded on the right.
            encoder_out: the encoder's output.
            cuts: long [B, C], each less than T.
            source_state: from :meth:`start_source`.
            targets: long [B, C, k]; needed with ``revealed`` only.
            revealed: bool [B, C, k], masks to be replaced by their target's state (glancing).
            states: [B, T, n C], the verifier's states that predicted each prefix token.

        Returns:
            [B, C, k, C'], C' the embedding width, before :meth:`output_layer`.
        """
        rows, width = prev_output_tokens.shape
        positions = block_positions(cuts, self.block_size).view(rows, -1)
        read = last = None
        if self.mask_states is not None and self.prefix_states is not None:
            assert states is not None, "this drafter reads a verifier's states"
            at = cuts.unsqueeze(2).expand(-1, -1, states.size(2))
            last = self.mask_states(states.gather(1, at)).repeat_interleave(self.block_size, 1)
            read = self.prefix_states(states)
        x = self.embed_masks(positions, source_state, last)
        if revealed is not None:
            assert targets is not None
            gold = self.embed_prefix(targets.reshape(rows, -1), positions)
            x = torch.where(revealed.reshape(rows, -1, 1), gold, x)
        steps = torch.arange(width, device=prev_output_tokens.device).expand(rows, width)
        x = torch.cat([self.embed_prefix(prev_output_tokens, steps, read), x], 1)
        x = self._run_layers(x, encoder_out, cuts, width)[:, width:]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return x.reshape(rows, cuts.size(1), self.block_size, -1)

    def _run_layers(
        self, x: Tensor, encoder_out: dict[str, list[Tensor]], cuts: Tensor, width: int
    ) -> Tensor:
        """Prefix (``width`` positions) and masks after every layer, [B, T + C k, C]."""
        allowed = block_attention(cuts, width, self.block_size, self.bidirectional_prefix)
        bias = x.new_zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))
        bias = bias.repeat_interleave(self.cfg.decoder.attention_heads, 0)
        padding = encoder_out["encoder_padding_mask"]
        source = encoder_out["encoder_out"][0], padding[0] if padding else None
        x = x.transpose(0, 1)
        for layer in self.layers:  # with --decoder-layerdrop, those of this pass
            x, _, _ = layer(x, *source, self_attn_mask=bias)
        return x.transpose(0, 1)

    def follow_chain(
        self, features: Tensor, prev_output_tokens: Tensor, cuts: Tensor, lengths: Tensor
    ) -> Tensor:
        """Features with the chain's contribution, given the target's tokens before each position.

        Args:
            features: [B, C, k, C'].
            prev_output_tokens: long [B, T].
            cuts: long [B, C].
            lengths: long [B, C], up to where each block has targets.

        Returns:
            [B, C, k, C']; in training some blocks are left as they are (``chain_dropout``).
        """
        assert self.chain is not None
        before = block_targets(prev_output_tokens, cuts, self.block_size, self.padding_idx)
        embedded = self.embed_scale * self.embed_tokens(before.flatten(0, 1))
        chained = self.chain(features.flatten(0, 1), embedded, lengths.flatten())
        chained = chained.view_as(features)
        if not self.training or self.cfg.chain_dropout == 0:
            return chained
        left_out = torch.rand(cuts.shape, device=cuts.device) < self.cfg.chain_dropout
        return torch.where(left_out[:, :, None, None], features, chained)
