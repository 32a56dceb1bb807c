"""mBART-25 and mBART-50 (Liu et al. 2020; Tang et al. 2020)."""

from typing import Dict, Tuple

from ..generation import Generation
from ..vocabulary import ANY_CODE, Vocabulary, assemble, read_pieces, read_tokenizer
from .base import Loader, Text, register

USUAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
PIECES = "sentencepiece.bpe.model"
# fairseq's task of models with several pairs.
SEVERAL = "translation_multi_simple_epoch"
# Its settings where source and target begin with their languages.
BOTH_SIDES = {"encoder_langtok": "src", "decoder_langtok": True, "lang_tok_style": "multilingual"}


@register("mbart")
class MBartLoader(Loader):
    """``MBartForConditionalGeneration``. mBART-50 starts with </s> and forces the target language;
    mBART-25 starts with the target language, and its source ends with its own."""

    pre_norm = True
    expected = {
        "normalize_before": True,
        "normalize_embedding": True,
        "add_final_layer_norm": True,
        "add_bias_logits": False,
        "static_position_embeddings": False,
        "extra_pos_embeddings": 2,
    }

    def text(self, generation: Generation) -> Tuple[Text, Tuple[Vocabulary, Vocabulary]]:
        vocabulary = pieces_and_languages(self)
        kind, files = files_of_pieces(self)
        if tokenizer_class(self).startswith("MBart50") or generation.start == generation.eos:
            text = Text(
                kind, files, ["{lang}", "{text}", "</s>"], "</s>", SEVERAL, task_settings=BOTH_SIDES
            )
        else:
            text = Text(
                kind, files, ["{text}", "</s>", "{lang}"], "{lang}",
                "translation_from_pretrained_bart", "[{}]",
            )  # fmt: skip
        return text, (vocabulary, vocabulary)


def pieces_and_languages(loader: Loader) -> Vocabulary:
    """fairseq's four symbols, the pieces without their own first three, and the languages."""
    base = {} if loader.folder.has(PIECES) else read_tokenizer(loader.folder)
    after = None
    if not base:
        pieces = read_pieces(loader.folder, PIECES)
        base = dict(enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces[3:]]))
        after = len(pieces) + 1
    vocabulary = assemble(loader.folder, base, USUAL, after, ANY_CODE)
    if "<mask>" in vocabulary.special:
        vocabulary.special["<mask>"] = True
    if not vocabulary.languages:
        raise ValueError(
            f"{loader.folder.path}: none of its files names the model's languages; copy "
            "tokenizer.json, special_tokens_map.json and tokenizer_config.json too"
        )
    return vocabulary


def files_of_pieces(loader: Loader) -> Tuple[str, Dict[str, str]]:
    """``kind`` and ``files`` of a ``Text``: sentencepiece's model, tokenizer.json, or both."""
    there = [name for name in (PIECES, "tokenizer.json") if loader.folder.has(name)]
    kind = "tokenizers" if "tokenizer.json" in there else "sentencepiece"
    return kind, {name: name for name in there}


def tokenizer_class(loader: Loader) -> str:
    """transformers' class for the folder's tokenizer; "" where no file says."""
    named = loader.folder.json("tokenizer_config.json").get("tokenizer_class")
    return str(named or loader.config.values.get("tokenizer_class") or "")
