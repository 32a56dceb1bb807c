"""One loader for each family of transformers, by config.json's ``model_type``."""

import json

import torch
from torch import Tensor

from fairseq_specdec.errors import UsageError

from .loader import PAD, Loader, Text
from .vocabulary import ANY_CODE, Vocabulary, assemble, read_ids, read_pieces, read_tokenizer

USUAL = ("<s>", "<pad>", "</s>", "<unk>")
PIECES = "sentencepiece.bpe.model"
# fairseq's task of models with several pairs; its settings where both sides begin with languages.
SEVERAL = "translation_multi_simple_epoch"
BOTH_SIDES = {"encoder_langtok": "src", "decoder_langtok": True, "lang_tok_style": "multilingual"}
Read = tuple[Text, tuple[Vocabulary, Vocabulary]]


class BartLoader(Loader):
    """BART: ``BartForConditionalGeneration`` with GPT-2's byte-level BPE."""

    def read_text(self) -> Read:
        kind, files, made = "gpt2", {"encoder.json": "vocab.json", "vocab.bpe": "merges.txt"}, {}
        ids = read_tokenizer(self.folder)
        if ids and not self.folder.has("vocab.json"):  # as fairseq's own BPE reads it
            merges = self.folder.json("tokenizer.json")["model"].get("merges") or []
            lines = [each if isinstance(each, str) else " ".join(map(str, each)) for each in merges]
            encoder = json.dumps({token: i for i, token in ids.items()})
            vocab = "\n".join(["#version: 0.2", *lines, ""])
            files, made = {}, {"encoder.json": encoder, "vocab.bpe": vocab}
        else:
            ids = read_ids(self.folder, "vocab.json")
            self.folder.file("merges.txt")
        if self.folder.has("tokenizer.json"):
            kind, files["tokenizer.json"] = "tokenizers", "tokenizer.json"
        vocabulary = assemble(self.folder, ids, (*USUAL, "<mask>"))
        text = Text(kind, files, ["<s>", "{text}", "</s>"], "</s>", "translation", made=made)
        return text, (vocabulary, vocabulary)


class MarianLoader(Loader):
    """Marian, as opus-mt: swish, its own order of sines and cosines, a bias of the output; decoding
    starts at padding; one vocabulary or two."""

    normed_embeddings = False
    plain_output = False

    def vocabulary_sizes(self) -> tuple[int, int]:
        size = self.config.count("vocab_size")
        target = self.config.count("decoder_vocab_size", size)
        if self.config.take("share_encoder_decoder_embeddings", True, bool) and size != target:
            problem = f"decoder_vocab_size {target} with shared embeddings of {size}"
            raise UsageError(self.config.path, problem)
        return size, target

    def read_text(self) -> Read:
        usual = ("</s>", "<unk>", "<pad>")
        source = target = assemble(self.folder, read_ids(self.folder, "vocab.json"), usual)
        if self.folder.json("tokenizer_config.json").get("separate_vocabs"):
            target = assemble(self.folder, read_ids(self.folder, "target_vocab.json"), usual)
        files = {name: name for name in ("source.spm", "target.spm")}
        for name in files:
            read_pieces(self.folder, name)
        text = Text("sentencepiece", files, ["{text}", "</s>"], "</s>", "translation")
        return text, (source, target)

    def position_table(self, name: str) -> Tensor:
        count, width = self.model["max_source_positions"], self.model["encoder_embed_dim"]
        there = name in self.weights
        table = self.take(name, [count, width]) if there else sinusoids(count, width)
        return torch.cat([torch.zeros(PAD + 1, width), table.float()])


def sinusoids(count: int, width: int) -> Tensor:
    """[count, width], ``MarianSinusoidalPositionalEmbedding``: sines, then cosines, of position /
    10000^(2i / width) for i from 0; fairseq's exponent is i / (width / 2 - 1)."""
    exponents = 2 * (torch.arange(width) // 2).double() / width
    angles = torch.arange(count).double().unsqueeze(1) / torch.pow(10000.0, exponents)
    return torch.cat([torch.sin(angles[:, 0::2]), torch.cos(angles[:, 1::2])], 1).float()


class _Multilingual(Loader):
    """Models whose tokens of languages are pieces of one sentencepiece model or follow them."""

    pre_norm = True

    def tokenizer_class(self) -> str:
        """transformers' class for the folder's tokenizer; "" where no file says."""
        named = self.folder.json("tokenizer_config.json").get("tokenizer_class")
        return str(named or self.config.values.get("tokenizer_class") or "")

    def pieces(self) -> tuple[str, dict[str, str], Vocabulary]:
        """``kind`` and ``files`` of a ``Text``; fairseq's four symbols, the pieces but for their
        first three, and the languages."""
        folder, after = self.folder, None
        base = {} if folder.has(PIECES) else read_tokenizer(folder)
        if not base:
            pieces = read_pieces(folder, PIECES)
            base, after = dict(enumerate([*USUAL, *pieces[3:]])), len(pieces) + 1
        there = [name for name in (PIECES, "tokenizer.json") if folder.has(name)]
        kind = "tokenizers" if "tokenizer.json" in there else "sentencepiece"
        vocabulary = assemble(folder, base, (*USUAL, "<mask>"), after, ANY_CODE)
        return kind, {name: name for name in there}, vocabulary

    def read(self, text: Text, vocabulary: Vocabulary) -> Read:
        if not vocabulary.languages:
            remedy = "copy tokenizer.json, special_tokens_map.json and tokenizer_config.json too"
            problem = "none of its files names the model's languages"
            raise UsageError(self.folder.path, problem, remedy)
        return text, (vocabulary, vocabulary)


class MBartLoader(_Multilingual):
    """mBART-25 and mBART-50 (Liu et al. 2020; Tang et al. 2020). The latter starts with </s> and
    forces the target language; the former starts with the target language, and its source ends with
    its own."""

    def read_text(self) -> Read:
        kind, files, vocabulary = self.pieces()
        generation = self.generation
        if self.tokenizer_class().startswith("MBart50") or generation.start == generation.eos:
            source = ["{lang}", "{text}", "</s>"]
            text = Text(kind, files, source, "</s>", SEVERAL, task_settings=BOTH_SIDES)
        else:
            source, task = ["{text}", "</s>", "{lang}"], "translation_from_pretrained_bart"
            text = Text(kind, files, source, "{lang}", task, "[{}]")
        return self.read(text, vocabulary)


class M2M100Loader(_Multilingual):
    """M2M-100 (Fan et al. 2020) and dense NLLB-200 (NLLB team 2022): fairseq's own order of sines
    and cosines."""

    learned_positions = False
    normed_embeddings = False

    def read_text(self) -> Read:
        source = ["{lang}", "{text}", "</s>"]
        if self.tokenizer_class().startswith("Nllb") or not self.folder.has("vocab.json"):
            kind, files, vocabulary = self.pieces()
            if self.folder.json("tokenizer_config.json").get("legacy_behaviour"):
                source = ["{text}", "</s>", "{lang}"]
        else:
            ids = read_ids(self.folder, "vocab.json")
            vocabulary = assemble(self.folder, ids, USUAL, codes=ANY_CODE)
            self.folder.file(PIECES)
            kind, files = "sentencepiece", {PIECES: PIECES}
        text = Text(kind, files, source, "</s>", SEVERAL, task_settings=BOTH_SIDES)
        return self.read(text, vocabulary)


LOADERS: dict[str, type[Loader]] = {
    "bart": BartLoader, "m2m_100": M2M100Loader, "marian": MarianLoader, "mbart": MBartLoader,
}  # fmt: skip
