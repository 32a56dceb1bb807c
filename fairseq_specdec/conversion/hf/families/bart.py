"""BART: summaries, and models that were fine-tuned from it."""

from __future__ import annotations

from typing import Tuple

from ..generation import Generation
from ..vocabulary import Vocabulary, assemble, read_ids
from .base import Loader, Text, register

USUAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


@register("bart")
class BartLoader(Loader):
    """``BartForConditionalGeneration`` with GPT-2's byte-level BPE."""

    expected = {
        "normalize_before": False,
        "normalize_embedding": True,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "static_position_embeddings": False,
        "extra_pos_embeddings": 2,
    }

    def text(self, generation: Generation) -> Tuple[Text, Tuple[Vocabulary, Vocabulary]]:
        vocabulary = assemble(self.folder, read_ids(self.folder, "vocab.json"), USUAL)
        vocabulary.special["<mask>"] = True
        files = {"encoder.json": "vocab.json", "vocab.bpe": "merges.txt"}
        self.folder.file("merges.txt")
        kind = "gpt2"
        if self.folder.has("tokenizer.json"):
            kind, files["tokenizer.json"] = "tokenizers", "tokenizer.json"
        source = ["<s>", "{text}", "</s>"]
        return Text(kind, files, source, "</s>", "translation"), (vocabulary, vocabulary)
