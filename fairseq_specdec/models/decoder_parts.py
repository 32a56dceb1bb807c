"""Parts of a ``BlockDecoder``, made from its settings."""

from typing import Any

from fairseq.modules import LayerDropModuleList, LayerNorm, PositionalEmbedding
from torch import nn

from .verifier_states import StateProjection


def position_embedding(cfg: Any, padding_idx: int) -> nn.Module | None:
    """The position table, or None; without layers nothing compares positions.

    The last block may start at the last position of a sentence, so masks need room after it.
    """
    if cfg.no_token_positional_embeddings or not cfg.decoder.layers:
        return None
    table: nn.Module = PositionalEmbedding(
        cfg.max_target_positions + cfg.block_size,
        cfg.decoder.embed_dim,
        padding_idx,
        learned=cfg.decoder.learned_pos,
    )
    return table


def state_projection(state_widths: tuple[int, int] | None, dim: int) -> StateProjection | None:
    """From the verifier's states to the drafter's width; None for a drafter that reads none."""
    return None if state_widths is None else StateProjection(*state_widths, dim)


def norm(cfg: Any) -> nn.Module:
    """A layer norm of the decoder's width."""
    norm: nn.Module = LayerNorm(cfg.decoder.embed_dim, export=cfg.export)
    return norm


def layer_list(cfg: Any) -> nn.ModuleList:
    """An empty list of layers, of the kind that ``--decoder-layerdrop`` asks for."""
    if cfg.decoder.layerdrop > 0:
        dropping: nn.ModuleList = LayerDropModuleList(p=cfg.decoder.layerdrop)
        return dropping
    return nn.ModuleList()


def output_projection(dim: int, symbols: int, tied: nn.Embedding | None) -> nn.Linear:
    """From features to logits; with the weight of ``tied`` embeddings, or one of its own."""
    projection = nn.Linear(dim, symbols, bias=False)
    if tied is not None:
        projection.weight = tied.weight
    else:
        nn.init.normal_(projection.weight, mean=0, std=dim**-0.5)
    return projection
