"""Marian (PyPI ``pymarian``) on the weights of a random Transformer, for its speed alone.

Marian begins decoding with a vector of zeros in place of fairseq's ``</s>`` and counts positions
otherwise, so its words differ from fairseq's. Only shapes with post-norm and shared embeddings are
written. ``</s>`` is biased away: every output is as long as Marian is allowed to write.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

# Words that Marian's own lexical shortlists hold: the most frequent, and for each source word.
FREQUENT, TRANSLATIONS = 50, 50
_ATTENTION = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}
_NEVER = -100.0
_SETTINGS = """\
bert-train-type-embedding: true
bert-type-vocab-size: 2
dec-cell: gru
dec-cell-base-depth: 2
dec-cell-high-depth: 1
dec-depth: {decoder_layers}
dim-emb: {width}
dim-rnn: 1024
dim-vocabs: [{words}, {words}]
enc-cell: gru
enc-cell-depth: 1
enc-depth: {encoder_layers}
enc-type: bidirectional
input-types: []
layer-normalization: false
lemma-dim-emb: 0
right-left: false
skip: false
tied-embeddings: false
tied-embeddings-all: true
tied-embeddings-src: false
transformer-aan-activation: swish
transformer-aan-depth: 2
transformer-aan-nogate: false
transformer-decoder-autoreg: self-attention
transformer-depth-scaling: false
transformer-dim-aan: 2048
transformer-dim-ffn: {inner}
transformer-ffn-activation: relu
transformer-ffn-depth: 2
transformer-guided-alignment-layer: last
transformer-heads: {heads}
transformer-no-projection: false
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-preprocess: ""
transformer-tied-layers: []
transformer-train-position-embeddings: false
type: transformer
ulr: false
ulr-dim-emb: 0
version: v1.9.0 2020-01-01 00:00:00 +0000
"""


def installed() -> bool:
    """Whether ``pymarian`` can be imported."""
    return importlib.util.find_spec("_pymarian") is not None


def can_write(settings: dict[str, Any]) -> bool:
    """Whether a shape of ``shapes.SHAPES`` is one that Marian runs."""
    return not settings.get("decoder_normalize_before") and not settings.get("layernorm_embedding")


def arrays(model: Any) -> dict[str, np.ndarray]:
    """A fairseq Transformer's weights by Marian's names; its first words are </s> and <unk>."""
    named: dict[str, np.ndarray] = {}

    def put(name: str, tensor: torch.Tensor) -> None:
        named[name] = np.ascontiguousarray(tensor.detach().float().numpy())

    def norm(name: str, layer: Any) -> None:
        put(f"{name}_ln_scale", layer.weight[None])
        put(f"{name}_ln_bias", layer.bias[None])

    def linear(name: str, letter: str, layer: Any) -> None:
        put(f"{name}_W{letter}", layer.weight.t())
        put(f"{name}_b{letter}", layer.bias[None])

    table = model.decoder.embed_tokens.weight
    put("Wemb", torch.cat([table[2:4], table[:2], table[4:]]))
    bias = torch.zeros(1, len(table))
    bias[0, :2] = _NEVER
    put("decoder_ff_logit_out_b", bias)
    for side in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(model, side).layers, 1):
            parts = {"self": (layer.self_attn, layer.self_attn_layer_norm)}
            if side == "decoder":
                parts["context"] = (layer.encoder_attn, layer.encoder_attn_layer_norm)
            for part, (attention, after) in parts.items():
                name = f"{side}_l{number}_{part}"
                for fairseq_name, letter in _ATTENTION.items():
                    linear(name, letter, getattr(attention, fairseq_name))
                norm(f"{name}_Wo", after)
            name = f"{side}_l{number}_ffn"
            linear(name, "1", layer.fc1)
            linear(name, "2", layer.fc2)
            norm(f"{name}_ffn", layer.final_layer_norm)
    return named


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what the library writes to standard error whatever it is asked."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class Marian:
    """Models of one network in several number formats, in a folder.

    Args:
        model: a fairseq Transformer for which ``can_write`` holds.
        folder: to write to.
        instructions: those of ``--gemm-type`` for 8 bits, as "avx2" or "avx512vnni".

    Attributes:
        names: of its words, in order.
    """

    def __init__(self, model: Any, folder: str, instructions: str) -> None:
        import _pymarian

        self._library = _pymarian
        self._folder = pathlib.Path(folder)
        named = arrays(model)
        self._words = len(named["Wemb"])
        layers = model.decoder.layers
        described = _SETTINGS.format(
            words=self._words, width=named["Wemb"].shape[1],
            inner=layers[0].fc1.weight.size(0), heads=layers[0].self_attn.num_heads,
            encoder_layers=len(model.encoder.layers), decoder_layers=len(layers),
        )  # fmt: skip
        named["special:model.yml"] = np.frombuffer(described.encode() + b"\0", dtype=np.int8)
        np.savez(self._folder / "model.npz", **named)
        self.names = ["</s>", "<unk>", *(f"w{i}" for i in range(2, self._words))]
        text = "".join(f'"{name}": {i}\n' for i, name in enumerate(self.names))
        (self._folder / "vocab.yml").write_text(text, "utf-8")
        files = ("-f", str(self._folder / "model.npz"), "-t", str(self._folder / "int8.bin"))
        with _silent():
            _pymarian.main(["convert", *files, "--gemm-type", f"intgemm8{instructions}"])

    def shortlist(self, sources: Sequence[torch.Tensor], seed: int = 1) -> None:
        """Write a lexical shortlist of random translations, frequent words more often."""
        generator = np.random.default_rng(seed)
        chances = 1 / np.arange(2, self._words)
        chances /= chances.sum()
        with open(self._folder / "lex.s2t", "w", encoding="utf-8") as stream:
            for word in sorted({int(w) for row in sources for w in row.flatten()}):
                drawn = generator.choice(np.arange(2, self._words), TRANSLATIONS, p=chances)
                for target in sorted(set(drawn)):
                    stream.write(f"w{target} w{word} {generator.uniform(0.01, 1):.5f}\n")

    def translator(
        self, kind: str, steps: float, rows: int, listed: bool = False
    ) -> Callable[[list[str]], list[str]]:
        """What translates lines.

        Args:
            kind: "float32" or "int8".
            steps: of the decoder for each word of an input, </s> included.
            rows: lines of a batch.
            listed: choose among the words of ``shortlist`` only.
        """
        weights = "model.npz" if kind == "float32" else "int8.bin"
        vocabulary = str(self._folder / "vocab.yml")
        words = [
            *("-m", str(self._folder / weights), "-v", vocabulary, vocabulary),
            *("--cpu-threads", "1", "-b", "1", "--skip-cost", "--maxi-batch", "1"),
            *("--mini-batch", str(rows), "--max-length-factor", f"{steps:.4f}"),
            *("--workspace", "256", "--quiet", "--quiet-translation"),
        ]
        if listed:
            path = str(self._folder / "lex.s2t")
            words += ["--shortlist", path, str(FREQUENT), str(TRANSLATIONS), "0"]
        with _silent():
            translator: Any = self._library.Translator(" ".join(words))
        return translator.translate


def line(source: torch.Tensor) -> str:
    """Marian's words of fairseq's tokens, [S] with </s> last."""
    return " ".join(f"w{int(token)}" for token in source[:-1])
