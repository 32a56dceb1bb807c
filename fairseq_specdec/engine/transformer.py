"""One autoregressive fairseq Transformer, run over a block of tokens after its cache."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .backend import TORCH, AnyDecoderSession, Backend
from .eager.parts import check_decoder
from .eager.positions import position_rows
from .eager.static_decoder import StaticSession
from .eager.stored_module import restore
from .graphs import Fixed, Outputs, Shape, bucket, more_rows, row_bucket, scattered_columns
from .layout import Layout, causal_horizon
from .native.decoder import NativeDecoder
from .work import Work


class TransformerWeights:
    """An encoder, and a decoder with its embeddings and positions; sessions share it.

    Args:
        model: fairseq ``TransformerModel`` or any module with its attributes.
        name: what to call the model in errors, e.g. ``--path``.
        read_layers: decoder layers, counted from 1, whose hidden states a session keeps.
        own_encoder: read the encoder too; without, there is no ``encode``.
    """

    def __init__(
        self,
        model: Any,
        name: str,
        read_layers: Sequence[int] = (),
        backend: Backend = TORCH,
        own_encoder: bool = True,
    ) -> None:
        self.model = model
        self.decoder = model.decoder
        if isinstance(model.decoder, nn.Module):  # else the first layers of one that was checked
            check_decoder(model.decoder, name)
        self.layers = backend.decoder(model.decoder, name, read_layers, model.encoder)
        if own_encoder:
            self.encode = backend.encoder(model.encoder)
        # Between the embeddings and the layers.
        products = (model.decoder.quant_noise, model.decoder.project_in_dim)
        self.products = [backend.linear(x.weight, x.bias) for x in products if x is not None]
        for part in (model.decoder, model.encoder):  # what is not packed, as untied embeddings
            restore(part)
        self._positions: Tensor | None = None

    @classmethod
    def of(
        cls, model: Any, name: str, backend: Backend, read_layers: Sequence[int] = ()
    ) -> TransformerWeights:
        """Those of the backend, which may share them; arguments as for the class."""
        key = ("transformer", model, *read_layers)
        return backend.once(key, lambda: cls(model, name, read_layers, backend))

    def work(self) -> list[Work] | None:
        """What a pass over one token computes; None where it is not known."""
        if not isinstance(self.layers, NativeDecoder):
            return None
        stack = self.layers.stack
        return [stack.layer_work, stack.end_work, stack.vocabulary_work]

    def position_table(self, count: int, like: Tensor) -> Tensor | None:
        """[count or more, C], the embeddings of positions 0, 1, ...; None for a model without.
        Raises ValueError: learned positions are fewer."""
        decoder = self.decoder
        if decoder.embed_positions is None:
            return None
        table = self._positions
        if table is None or table.size(0) < count:
            table = position_rows(decoder.embed_positions, decoder.padding_idx, count).to(like)
            self._positions = table  # if two threads compute it, either result will do
        return table

    def open(self, encoder_out: Any, max_len: int, capacity: int) -> TransformerSession:
        """Begin a batch.

        Args:
            encoder_out: from ``encode``.
            max_len: largest position that counts; tokens after it get its embedding.
            capacity: cache slots to prepare.
        """
        masks = encoder_out["encoder_padding_mask"]
        states = encoder_out["encoder_out"][0]
        table = self.position_table(max_len + 1, states)
        layers = self.layers.open(states, masks[0] if len(masks) > 0 else None, capacity)
        return TransformerSession(self, layers, table)


class TransformerSession:
    """One batch of a Transformer's decoder. ``positions``: [count, C], or None for a model without
    positions."""

    def __init__(
        self, weights: TransformerWeights, layers: AnyDecoderSession, positions: Tensor | None
    ) -> None:
        self.weights = weights
        self.layers = layers
        self.positions = positions

    def embed(self, tokens: Tensor, layout: Layout) -> Tensor:
        """[B, W, C], the decoder's input for tokens (long [B, W]) at the positions of a layout."""
        decoder = self.weights.decoder
        x: Tensor = decoder.embed_scale * decoder.embed_tokens(tokens)
        for product in self.weights.products:
            x = product(x)
        if self.positions is not None:
            x = x + self._position_rows(self.positions, layout)
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        return x

    @staticmethod
    def _position_rows(table: Tensor, layout: Layout) -> Tensor:
        """[B or 1, W, C], of a table [count, C]; positions after it take its last row."""
        count, first = table.size(0), layout.run_from
        if first is not None and layout.in_order and layout.upto <= count:
            return table[first : layout.upto].unsqueeze(0)
        positions = layout.positions
        if layout.upto > count:
            positions = positions.clamp(max=count - 1)
        return F.embedding(positions, table)

    def run(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Write a block (long [B, W]) to the cache and attend; [B, W, C'] for ``logits``."""
        x = self.embed(tokens, layout)
        return self.layers.run(x, layout, layout.mask())

    def logits(self, features: Tensor) -> Tensor:
        """[.., V] of features [.., C']."""
        return self.layers.logits(features)

    def padded(self, width: int, upto: int) -> tuple[int, int]:
        """To how many columns, and slots to look at, a block of scattered tokens has to be filled
        up for ``run_graph``; as they are where nothing is recorded."""
        if not isinstance(self.layers, StaticSession):
            return width, upto
        return scattered_columns(width), bucket(upto)

    def run_graph(self, tokens: Tensor, layout: Layout, finish: Finish) -> Tensor | None:
        """``finish(self, run(tokens, layout))`` by a CUDA graph, where there is one for these
        shapes.

        Args:
            tokens: long [B, W].
            layout: of a chain, or of scattered tokens ``padded``.
            finish: always the same one for this model.

        Returns:
            [B, W, V], which holds until the next call; None where there is no such graph.
        """
        layers = self.layers
        if not isinstance(layers, StaticSession):
            return None
        calls, (rows, width) = layers.cache.calls, tokens.shape
        padded_rows = row_bucket(rows)
        if layout.seen is None:
            kind, columns = "block", calls.graphs.columns(width)
            upto = bucket(layout.upto - width + columns)
            places: list[tuple[Tensor, tuple[int, ...]]] = [(layout.slots[:, 0], (padded_rows,))]
        else:
            kind, columns, upto = "scattered", width, layout.upto
            if self.padded(width, upto) != (width, upto):
                return None
            # Rows that no batch had yet see all: a row that sees nothing makes NaN.
            places = [(each, (padded_rows, columns)) for each in (layout.positions, layout.slots)]
            places.append((~layout.seen, (padded_rows, columns, upto)))
        layers.cache.reserve(upto)
        known = None if self.positions is None else self.positions.size(0)

        def make() -> Fixed:
            # Of this batch nothing but the length of the position table.
            session = TransformerSession(self.weights, layers.bucketed(padded_rows), self.positions)
            function = functools.partial(_whole_pass, session, upto, finish)
            shapes: list[Shape] = [((padded_rows, columns), torch.long)]
            return Fixed(function, shapes + [(size, place.dtype) for place, size in places])

        key, *wider = (
            (kind, more, columns, upto, layers.sources, known)
            for more in (padded_rows, *more_rows(padded_rows))
        )
        outputs = calls.run(key, make, [tokens, *(place for place, _ in places)], wider)
        if outputs is None:
            return None
        if len(outputs) > 1:  # kept until the next draft, after later passes
            layers.hidden_states = outputs[1][:rows, :width].clone()
        return outputs[0][:rows, :width]

    def commit(self, lengths: Tensor, lengths_cpu: list[int]) -> None:
        """Keep so many slots of each row; roll back the rest."""
        self.layers.commit(lengths, lengths_cpu)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        """Keep only these rows (ascending row numbers; on the device and as Python ints)."""
        self.layers.select(rows, rows_cpu)

    def close(self) -> None:
        """The batch is over."""
        self.layers.close()


# [.., V] of a session and its features [.., C'].
Finish = Callable[[TransformerSession, Tensor], Tensor]


def _whole_pass(
    session: TransformerSession, upto: int, finish: Finish, tokens: Tensor, *places: Tensor
) -> Outputs:
    """What is recorded: a pass over a block.

    Args:
        session: over the first rows of the cache.
        upto: slots to look at, T.
        finish: makes scores of features.
        tokens: long [R, W].
        places: of a chain long [R], the slot of each row's first token; of scattered tokens their
            positions and slots, each long [R, W], and bool [R, W, T], False at what each sees.

    Returns:
        ``finish``'s [R, W, V], and the hidden states [R, W, n C] where some are read.
    """
    if len(places) == 1:
        slots = causal_horizon(places[0], tokens.size(1))
        layout = Layout(slots, slots, upto)
    else:
        positions, slots, hidden = places
        layout = Layout.scattered(positions, slots, ~hidden)
    scores = finish(session, session.run(tokens, layout))
    states = session.layers.hidden_states
    return (scores,) if states is None else (scores, states)
