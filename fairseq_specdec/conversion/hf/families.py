"""One loader for each family of transformers, by config.json's ``model_type``."""

import torch
from torch import Tensor

from fairseq_specdec.errors import UsageError

from .loader import PAD, Loader, Text
from .vocabulary import Vocabulary, assemble, read_ids, read_pieces, read_tokenizer

USUAL = ("<s>", "<pad>", "</s>", "<unk>")
PIECES = "sentencepiece.bpe.model"
# fairseq's task of models with several pairs; its settings where both sides begin with languages.
SEVERAL = "translation_multi_simple_epoch"
BOTH_SIDES = {"encoder_langtok": "src", "decoder_langtok": True, "lang_tok_style": "multilingual"}
Read = tuple[Text, tuple[Vocabulary, Vocabulary]]


class BartLoader(Loader):
    """BART: ``BartForConditionalGeneration`` with GPT-2's byte-level BPE."""

    def read_text(self) -> Read:
        files, ids = {}, read_tokenizer(self.folder)
        kind = "tokenizers" if ids else "gpt2"
        if self.folder.has("vocab.json") or not ids:  # as fairseq's own BPE reads it
            ids = read_ids(self.folder, "vocab.json")
            files = {"encoder.json": "vocab.json", "vocab.bpe": "merges.txt"}
        if kind == "tokenizers":
            files["tokenizer.json"] = "tokenizer.json"
        vocabulary = assemble(self.folder, ids, (*USUAL, "<mask>"))
        text = Text(kind, files, ["<s>", "{text}", "</s>"], "</s>", "translation")
        return text, (vocabulary, vocabulary)


class MarianLoader(Loader):
    """Marian, as opus-mt: swish, its own order of sines and cosines, a bias of the output; decoding
    starts at padding; one vocabulary or two."""

    normed_embeddings = False

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
        for name in files:  # they are sound
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

    def read_text(self) -> Read:
        folder, after = self.folder, None
        usual: tuple[str, ...] = (*USUAL, "<mask>")
        files = {name: name for name in (PIECES, "tokenizer.json") if folder.has(name)}
        if folder.has("vocab.json"):  # M2M-100
            base, usual, files = read_ids(folder, "vocab.json"), USUAL, {PIECES: PIECES}
        elif folder.has(PIECES) or not (base := read_tokenizer(folder)):
            # fairseq's four symbols, and the pieces but for their first three
            pieces = read_pieces(folder, PIECES)
            base, after = dict(enumerate([*USUAL, *pieces[3:]])), len(pieces) + 1
        vocabulary = assemble(folder, base, usual, after, multilingual=True)
        if not vocabulary.languages:
            remedy = "copy tokenizer.json, special_tokens_map.json and tokenizer_config.json too"
            problem = "none of its files names the model's languages"
            raise UsageError(folder.path, problem, remedy)
        kind = "tokenizers" if "tokenizer.json" in files else "sentencepiece"
        return self.text_of(kind, files), (vocabulary, vocabulary)

    def text_of(self, kind: str, files: dict[str, str]) -> Text:
        """How text is read by a subword model."""
        source = ["{lang}", "{text}", "</s>"]
        return Text(kind, files, source, "</s>", SEVERAL, task_settings=BOTH_SIDES)


class MBartLoader(_Multilingual):
    """mBART-25 and mBART-50 (Liu et al. 2020; Tang et al. 2020). The latter starts with </s> and
    forces the target language; the former starts with the target language, and its source ends with
    its own."""

    def text_of(self, kind: str, files: dict[str, str]) -> Text:
        named = self.folder.json("tokenizer_config.json").get("tokenizer_class")
        named = named or self.config.values.get("tokenizer_class")
        if str(named).startswith("MBart50") or self.generation.start == self.generation.eos:
            return super().text_of(kind, files)
        task = "translation_from_pretrained_bart"
        return Text(kind, files, ["{text}", "</s>", "{lang}"], "{lang}", task, "[{}]")


class M2M100Loader(_Multilingual):
    """M2M-100 (Fan et al. 2020) and dense NLLB-200 (NLLB team 2022): fairseq's own order of sines
    and cosines."""

    learned_positions = False
    normed_embeddings = False

    def text_of(self, kind: str, files: dict[str, str]) -> Text:
        if self.folder.json("tokenizer_config.json").get("legacy_behaviour"):
            problem = "legacy_behaviour is true: sources would end with their language"
            raise UsageError(f"{self.folder.path}/tokenizer_config.json", problem, "make it false")
        return super().text_of(kind, files)


LOADERS: dict[str, type[Loader]] = {
    "bart": BartLoader, "m2m_100": M2M100Loader, "marian": MarianLoader, "mbart": MBartLoader,
}  # fmt: skip
