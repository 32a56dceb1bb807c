"""Marian: opus-mt and other models of Marian NMT."""

from typing import Any, Dict, Tuple

import torch
from torch import Tensor

from ..generation import Generation
from ..vocabulary import Vocabulary, assemble, read_ids, read_pieces
from .base import PAD, Loader, Text, register, table_or_none

USUAL = ("</s>", "<unk>", "<pad>")


@register("marian")
class MarianLoader(Loader):
    """``MarianMTModel``: swish, its own order of sines and cosines, a bias of the output; decoding
    starts at padding; one vocabulary or two."""

    normed_embeddings = False
    expected = {
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "static_position_embeddings": True,
    }

    def vocabulary_sizes(self) -> Tuple[int, int]:
        size = self.config.count("vocab_size")
        target = self.config.count("decoder_vocab_size", size)
        self.config.leave(["extra_pos_embeddings"])
        shared = self.config.take("share_encoder_decoder_embeddings", True, bool)
        if shared and size != target:
            raise ValueError(
                f"{self.config.path}: decoder_vocab_size {target} with shared embeddings of {size}"
            )
        return size, target

    def text(self, generation: Generation) -> Tuple[Text, Tuple[Vocabulary, Vocabulary]]:
        tokenizer = self.folder.json("tokenizer_config.json")
        source = assemble(self.folder, read_ids(self.folder, "vocab.json"), USUAL)
        target = source
        if tokenizer.get("separate_vocabs"):
            target = assemble(self.folder, read_ids(self.folder, "target_vocab.json"), USUAL)
        files = {name: name for name in ("source.spm", "target.spm")}
        for name in files:
            read_pieces(self.folder, name)
        text = Text("sentencepiece", files, ["{text}", "</s>"], "</s>", "translation")
        return text, (source, target)

    def position_table(self, name: str, model: Dict[str, Any]) -> Tensor:
        count, width = model["max_source_positions"], model["encoder_embed_dim"]
        table = table_or_none(self.weights, name, [count, width])
        if table is None:
            table = sinusoids(count, width)
        return torch.cat([torch.zeros(PAD + 1, width), table.float()])

    def out_is_fairseqs(self) -> bool:
        return False


def sinusoids(count: int, width: int) -> Tensor:
    """[count, width], ``MarianSinusoidalPositionalEmbedding``: sines, then cosines, of position /
    10000^(2i / width) for i from 0; fairseq's exponent is i / (width / 2 - 1)."""
    half = (width + 1) // 2
    exponents = 2 * (torch.arange(width) // 2).double() / width
    angles = torch.arange(count).double().unsqueeze(1) / torch.pow(10000.0, exponents)
    table = torch.empty(count, width)
    table[:, :half] = torch.sin(angles[:, 0::2]).float()
    table[:, half:] = torch.cos(angles[:, 1::2]).float()
    return table
