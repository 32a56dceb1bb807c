"""A verifier's encoder output and decoder states, as input of a drafter."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

from ..training.state_cache import Rows, StateCache, model_digest, sentence_key


def layers_at_thirds(layers: int) -> list[int]:
    """Decoder layers to read, counted from 1: a third of the way, two thirds, and the last."""
    return sorted({max(1, layers // 3), max(1, 2 * layers // 3), layers})


class StateProjection(nn.Module):
    """States of several decoder layers, side by side, to one vector of the drafter's width.

    Each layer's state is normalised first: the residual stream of a pre-norm model grows from
    layer to layer.

    Args:
        layers: how many states are concatenated.
        width: of one state.
        dim: of the result.
    """

    def __init__(self, layers: int, width: int, dim: int):
        super().__init__()
        self.layers = layers
        self.width = width
        # No bias: where there is no state (zeros), nothing is added.
        self.project = nn.Linear(layers * width, dim, bias=False)
        nn.init.normal_(self.project.weight, std=(layers * width) ** -0.5)

    def normalise(self, states: Tensor) -> Tensor:
        """Every layer's part of [.., layers * width] for itself."""
        parts = states.unflatten(-1, (self.layers, self.width))
        return nn.functional.layer_norm(parts, (self.width,)).flatten(-2)

    def forward(self, states: Tensor) -> Tensor:
        """[.., layers * width] to [.., dim]."""
        return self.project(self.normalise(states))


def _sentences(encoder_out: Any, states: Tensor, final: Tensor, lengths: list[int]) -> list[Rows]:
    """What :meth:`VerifierReader.read` returns, sentence by sentence, for the cache."""
    source = encoder_out["encoder_out"][0].transpose(0, 1).half().cpu().numpy()
    target = torch.cat([states, final], 2).half().cpu().numpy()
    padding = encoder_out["encoder_padding_mask"]
    there = ~padding[0].bool().cpu().numpy() if padding else [slice(None)] * len(source)
    return [(source[i][there[i]], target[i, :length]) for i, length in enumerate(lengths)]


def _padded(rows: list[Any], like: Tensor, width: int = 0) -> tuple[Tensor, Tensor]:
    """Arrays [n, D] as one batch [B, W, D] on the device of ``like``; its padding, bool [B, W]."""
    batch = nn.utils.rnn.pad_sequence([torch.from_numpy(each) for each in rows], batch_first=True)
    batch = nn.functional.pad(batch, (0, 0, 0, max(0, width - batch.size(1))))
    lengths = torch.tensor([len(each) for each in rows])
    padding = torch.arange(batch.size(1)) >= lengths[:, None]
    return batch.to(like), padding.to(like.device)


class VerifierReader(FairseqEncoder):
    """A drafter's encoder that has no weights of its own: it runs the verifier, without gradients.

    The verifier is no part of the drafter: it is neither saved with it nor trained, and in
    decoding the engine passes the states that the verification computed.

    Args:
        dictionary: the source dictionary.
        layers: decoder layers to read, counted from 1.
    """

    def __init__(self, dictionary: Any, layers: Sequence[int]):
        super().__init__(dictionary)
        self.read_layers = list(layers)
        self._verifier: list[Any] = []  # in a list, nn.Module does not register it
        self._cache: StateCache | None = None

    def attach(self, verifier: Any, cache: str | None = None) -> None:
        """Freeze this verifier and read it.

        Args:
            verifier: fairseq's encoder-decoder model.
            cache: folder in which the states of known sentences are kept; None to compute them
                whenever they are asked for.
        """
        verifier.requires_grad_(False)
        self._verifier = [verifier.eval()]
        if cache:
            digest = model_digest(verifier, str(self.read_layers))
            dim = verifier.decoder.embed_dim
            self._cache = StateCache(cache, digest, (dim, (len(self.read_layers) + 1) * dim))

    @torch.no_grad()
    def read(
        self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, like: Tensor
    ) -> tuple[Any, Tensor, Tensor]:
        """Run the verifier over known sentences.

        Args:
            src_tokens: long [B, S].
            src_lengths: long [B].
            prev_output_tokens: long [B, T].
            like: a tensor whose device and dtype to use.

        Returns:
            The encoder's output as fairseq gives it; [B, T, layers * C], whose entry t holds the
            states that predict the token after position t; and the last layer's alone, [B, T, C].
        """
        if not self._verifier:
            raise UsageError(
                "--attach-to",
                "an attached drafter reads a verifier's states in training",
                "give the verifier's checkpoint",
            )
        verifier = self._verifier[0]
        # The drafter may use its tables where all states are kept.
        verifier.to(like.device, like.dtype)
        decoder, cache, keys = verifier.decoder, self._cache, []
        if cache is not None:
            keys = self._keys(src_tokens, src_lengths, prev_output_tokens)
            cached = list(map(cache.find, keys))
            known = [rows for rows in cached if rows is not None]
            if len(known) == len(keys):
                return self._assemble(known, prev_output_tokens.size(1), like)
        encoder_out = verifier.encoder(src_tokens, src_lengths=src_lengths)
        final, extra = decoder.extract_features_scriptable(prev_output_tokens, encoder_out)
        states = [
            final if layer == len(decoder.layers) else extra["inner_states"][layer].transpose(0, 1)
            for layer in self.read_layers
        ]
        computed = encoder_out, torch.cat(states, -1), final
        if cache is not None:
            lengths = prev_output_tokens.ne(decoder.padding_idx).sum(1).tolist()
            for key, rows in zip(keys, _sentences(*computed, lengths)):
                cache.add(key, *rows)
        return computed

    def _keys(self, src_tokens: Tensor, src_lengths: Tensor, previous: Tensor) -> list[bytes]:
        """A key of each sentence, whatever its padding."""
        pad, keys = self._verifier[0].decoder.padding_idx, []
        sources, targets = src_tokens.cpu(), previous.cpu()
        for source, length, target in zip(sources, src_lengths.tolist(), targets):
            own = source[:length] if source.is_floating_point() else source[source.ne(pad)]
            keys.append(sentence_key(own.numpy(), target[target.ne(pad)].numpy()))
        return keys

    def _assemble(self, known: list[Rows], width: int, like: Tensor) -> tuple[Any, Tensor, Tensor]:
        """A batch of sentences whose states were kept: as :meth:`read` returns it."""
        source, padding = _padded([rows[0] for rows in known], like)
        states, _ = _padded([rows[1] for rows in known], like, width)
        dim = states.size(2) // (len(self.read_layers) + 1)
        encoder_out: dict[str, list[Tensor]] = {
            "encoder_out": [source.transpose(0, 1)],
            "encoder_padding_mask": [padding],
        }
        return encoder_out, states[:, :, :-dim], states[:, :, -dim:]

    @torch.no_grad()
    def predict(self, final: Tensor) -> Tensor:
        """The verifier's logits [N, V] from its last layer's states [N, C]."""
        return self._verifier[0].decoder.output_layer(final)
