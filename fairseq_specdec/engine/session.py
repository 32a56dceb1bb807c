"""What all backends share: how a source and a block of tokens enter, and a batch of a decoder, run
over blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch.nn.functional as F
from fairseq.data.data_utils import lengths_to_padding_mask
from fairseq.models.speech_to_text.s2t_transformer import S2TTransformerEncoder
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

from .state import Layout, scaled_sum

Product = Callable[[Tensor], Tensor]


class Encoder:
    """Encodes batches; nothing of it changes. A subclass runs the layers.

    Attributes:
        layers: fairseq's encoder layers, in a list of modules.
        layer_norm: after the last one, or None.
        pad: of text, its padding token; None of speech.

    Args:
        encoder: of text or of speech, of a class in ``support.ENCODERS``.
    """

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        speech = isinstance(encoder, S2TTransformerEncoder)
        self.layers = encoder.transformer_layers if speech else encoder.layers
        self.layer_norm = encoder.layer_norm
        self.pad: int | None = None if speech else encoder.padding_idx

    def __call__(self, net_input: dict[str, Any], padded: bool | None = None) -> dict[str, Any]:
        """Encode.

        Args:
            net_input: fairseq's ``sample["net_input"]``.
            padded: whether there is padding; None to look, for which the host waits for a GPU.

        Returns:
            ``encoder_out``: list of one [S, B, C]; ``encoder_padding_mask``: list of one bool
            [B, S], True at padding, or empty where there is none; as fairseq's encoders give them.
        """
        x, padding = self.states(net_input, padded)
        masks = [] if padding is None else [padding]
        return {"encoder_out": [x.transpose(0, 1)], "encoder_padding_mask": masks}

    def states(
        self, net_input: dict[str, Any], padded: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        """The last layer's [B, S, C], and the padding as ``embed`` gives it. Arguments as for a
        call."""
        x, padding = self.embed(net_input, padded)
        return self.run(x, padding), padding

    def run(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """The last layer's [B, S, C] of the first one's input. ``padding``: see ``embed``."""
        raise NotImplementedError

    def embed(self, net_input: dict[str, Any], padded: bool | None) -> tuple[Tensor, Tensor | None]:
        """The first layer's input [B, S, C], and bool [B, S], True at padding, or None where there
        is none. ``padded``: whether there is some, where that is known.

        Text is zero at padding, as fairseq has it. Frames of speech at the end of a sentence see
        the padding after it, through the second convolution (Wang et al. 2020, fairseq S2T): that
        is stock's result for the batch, and not that of the sentence alone.
        """
        encoder, tokens = self.encoder, net_input["src_tokens"]
        if self.pad is None:
            x, lengths = encoder.subsample(tokens, net_input["src_lengths"])
            x = encoder.embed_scale * x.transpose(0, 1)
            padding = lengths_to_padding_mask(lengths)
            x = x + encoder.embed_positions(padding)
            # Another model of an ensemble may subsample to another length: ``padded`` is moot.
            return x, padding if bool(padding.any()) else None
        x, _ = encoder.forward_embedding(tokens)
        hidden = self.padding(tokens, padded)
        return x if hidden is None else x.masked_fill(hidden.unsqueeze(2), 0.0), hidden

    def padding(self, tokens: Tensor, padded: bool | None) -> Tensor | None:
        """Of text, as ``embed`` gives it."""
        padding = tokens.eq(self.pad).contiguous()  # type: ignore[arg-type]
        return padding if (bool(padding.any()) if padded is None else padded) else None


class StockEncoder:
    """An encoder with a part that is not run here, called as it is."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def __call__(self, net_input: dict[str, Any], padded: bool | None = None) -> dict[str, Any]:
        """As of ``Encoder``."""
        out: dict[str, Any] = self.encoder.forward_torchscript(net_input)
        masks = out["encoder_padding_mask"]
        if padded is None and len(masks) > 0:
            padded = bool(masks[0].any())
        return out if padded else dict(out, encoder_padding_mask=[])


class Embedding:
    """What a decoder does before its layers: tokens, and positions.

    Args:
        decoder: fairseq ``TransformerDecoder`` or any module with its attributes.
        linear: makes a product of a weight and a bias.
    """

    def __init__(self, decoder: Any, linear: Callable[[Tensor, Tensor | None], Product]) -> None:
        self.decoder = decoder
        products = (decoder.quant_noise, decoder.project_in_dim)
        self.products = [linear(x.weight, x.bias) for x in products if x is not None]
        self._positions: Tensor | None = None

    def positions(self, count: int, like: Tensor) -> Tensor | None:
        """[count or more, C], the embeddings of positions 0, 1, ...; None for a model without.

        fairseq counts positions from ``padding_idx + 1``. Its sinusoidal module ignores the
        ``positions`` argument and its learned module asserts on it, so the table is indexed here.

        Raises:
            UsageError: learned positions are fewer.
        """
        places, pad, table = self.decoder.embed_positions, self.decoder.padding_idx, self._positions
        if places is None:
            return None
        if table is None or table.size(0) < count:
            limit = learned_limit(places, pad)
            if limit is None:
                table = places.get_embedding(pad + 1 + count, places.embedding_dim, pad)
            elif count <= limit:
                table = places.weight.detach()
            else:
                raise UsageError(
                    "",
                    f"the model has learned positions for {limit} tokens, {count} are asked for",
                    "lower --max-len-b",
                )
            table = table[pad + 1 : pad + 1 + count].to(like)
            self._positions = table  # if two threads compute it, either result will do
        return table

    def __call__(self, tokens: Tensor, layout: Layout, positions: Tensor | None) -> Tensor:
        """[B, W, C] of tokens (long [B, W]) at the positions of a layout, whose embeddings are
        given: [count, C], the last of which serves all further ones."""
        decoder = self.decoder
        x: Tensor = decoder.embed_tokens(tokens)
        scale = decoder.embed_scale
        for number, product in enumerate(self.products):
            x, scale = product(x if number else scale * x), 1.0
        if positions is None:
            x = scale * x
        else:
            count, places = positions.size(0), layout.positions
            places = places.clamp(max=count - 1) if layout.upto > count else places
            x = scaled_sum(scale, x, F.embedding(places, positions))
        return x if decoder.layernorm_embedding is None else decoder.layernorm_embedding(x)


def learned_limit(embed_positions: nn.Module | None, padding_idx: int) -> int | None:
    """How many positions a learned table holds; None where there is no limit."""
    if isinstance(embed_positions, nn.Embedding):
        return embed_positions.num_embeddings - padding_idx - 1
    return None


Weights = TypeVar("Weights")


class Session(Generic[Weights]):
    """One batch of a decoder: its cache, and keys and values of the source. It does not depend on
    lengths: what a block sees is in its layout.

    Attributes:
        weights: of the decoder; sessions of many threads share them.
        positions: [count, C], embeddings of positions; None for a decoder without, or one whose
            blocks come embedded.
        states: [B, T, n C], hidden states of the layers to read, side by side, at the column of the
            token that they predicted; zeros at the start symbol's. None without such layers.
        reads: hidden states are kept; set it to False where nobody reads them any more.

    Args:
        embedding: of the decoder, for ``run``; or None.
        positions: as the attribute.
    """

    def __init__(
        self, weights: Weights, embedding: Embedding | None = None, positions: Tensor | None = None
    ) -> None:
        self.weights = weights
        self.embedding = embedding
        self.positions = positions
        self.states: Tensor | None = None
        self.reads = True

    def run(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Write a block (long [B, W]) to the cache and attend; [B, W, C'] for ``logits``."""
        assert self.embedding is not None, "the blocks of this decoder come embedded"
        return self.run_embedded(self.embedding(tokens, layout, self.positions), layout)

    def run_embedded(
        self, x: Tensor, layout: Layout, layer_bias: Tensor | None = None, wanted: int | None = None
    ) -> Tensor:
        """Write a block to the cache and attend.

        Args:
            x: [B, W, C].
            layout: its places.
            layer_bias: [B, W, C], added to the input of every layer but the first; or None.
            wanted: only the last so many positions are wanted; the last layer keeps the keys and
                values of the others and computes nothing else for them. Not with layers to read.

        Returns:
            [B, W, C'] ([B, wanted, C']), ready for ``logits``.
        """
        raise NotImplementedError

    def logits(self, features: Tensor) -> Tensor:
        """[.., V] of features [.., C']."""
        raise NotImplementedError

    def replay(
        self, tokens: Tensor, layout: Layout, finish: Callable[[Any, Tensor], Tensor]
    ) -> Tensor | None:
        """``finish(self, run(tokens, layout))`` by a CUDA graph; None where there is none for these
        shapes."""
        return None

    def padded(self, width: int, upto: int) -> tuple[int, int]:
        """To how many columns, and slots to look at, a block of scattered tokens has to be filled
        up for ``replay``."""
        return width, upto

    def reserve_states(self, columns: int, rows: int, size: int, like: Tensor) -> Tensor:
        """``states`` with room for so many columns of B ``rows``, n C = ``size``."""
        if self.states is None:
            self.states = like.new_empty(rows, columns, size)
            self.states[:, 0] = 0.0
        elif self.states.size(1) < columns:
            more = max(columns, 2 * self.states.size(1)) - self.states.size(1)
            self.states = F.pad(self.states, (0, 0, 0, more))
        return self.states

    def keep_states(self, layout: Layout, read: Tensor) -> None:
        """Store the hidden states [B, W, n C] of a block in ``states``; in any other order than
        that of the positions nobody reads them."""
        if layout.in_order and self.reads:
            states = self.reserve_states(layout.upto + 1, read.size(0), read.size(2), read)
            at = layout.positions.unsqueeze(2).expand(read.shape)
            states[:, 1:].scatter_(1, at, read)

    def keep(self, rows: Tensor, count: int) -> None:
        """Keep only these rows (``count`` ascending numbers, long [count] on the device)."""
        if self.states is not None and self.reads:
            self.states = self.states.index_select(0, rows)

    def close(self) -> None:
        """End the batch; other batches may use its buffers."""
