"""BART: summaries, and models that were fine-tuned from it."""

import json

from ..generation import Generation
from ..vocabulary import Vocabulary, assemble, read_ids, read_tokenizer
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

    def text(self, generation: Generation) -> tuple[Text, tuple[Vocabulary, Vocabulary]]:
        kind, files, made = "gpt2", {"encoder.json": "vocab.json", "vocab.bpe": "merges.txt"}, {}
        ids = read_tokenizer(self.folder)
        if ids and not self.folder.has("vocab.json"):
            files, made = {}, self._files_of_gpt2(ids)
        else:
            ids = read_ids(self.folder, "vocab.json")
            self.folder.file("merges.txt")
        if self.folder.has("tokenizer.json"):
            kind, files["tokenizer.json"] = "tokenizers", "tokenizer.json"
        vocabulary = assemble(self.folder, ids, USUAL)
        vocabulary.special["<mask>"] = True
        text = Text(kind, files, ["<s>", "{text}", "</s>"], "</s>", "translation", made=made)
        return text, (vocabulary, vocabulary)

    def _files_of_gpt2(self, ids: dict[int, str]) -> dict[str, str]:
        """What tokenizer.json says, as fairseq's own BPE reads it."""
        merges = self.folder.json("tokenizer.json")["model"].get("merges") or []
        lines = [each if isinstance(each, str) else " ".join(map(str, each)) for each in merges]
        encoder = json.dumps({token: i for i, token in ids.items()})
        return {"encoder.json": encoder, "vocab.bpe": "\n".join(["#version: 0.2", *lines, ""])}
