"""M2M-100 (Fan et al. 2020) and dense NLLB-200 (NLLB team 2022)."""

from typing import Tuple

from fairseq_specdec.errors import UsageError

from ..generation import Generation
from ..vocabulary import Vocabulary, assemble, read_ids
from .base import Loader, Text, register
from .mbart import (
    BOTH_SIDES,
    PIECES,
    SEVERAL,
    files_of_pieces,
    pieces_and_languages,
    tokenizer_class,
)

USUAL = ("<s>", "<pad>", "</s>", "<unk>")


@register("m2m_100")
class M2M100Loader(Loader):
    """``M2M100ForConditionalGeneration``: fairseq's own order of sines and cosines."""

    pre_norm = True
    learned_positions = False
    normed_embeddings = False
    expected = {
        "normalize_before": True,
        "normalize_embedding": False,
        "add_final_layer_norm": True,
        "add_bias_logits": False,
        "static_position_embeddings": True,
        "extra_pos_embeddings": 2,
    }

    def text(self, generation: Generation) -> Tuple[Text, Tuple[Vocabulary, Vocabulary]]:
        nllb = tokenizer_class(self).startswith("Nllb") or not self.folder.has("vocab.json")
        source, (kind, files) = ["{lang}", "{text}", "</s>"], files_of_pieces(self)
        if nllb:
            vocabulary = pieces_and_languages(self)
            if self.folder.json("tokenizer_config.json").get("legacy_behaviour"):
                source = ["{text}", "</s>", "{lang}"]
        else:
            vocabulary = assemble(self.folder, read_ids(self.folder, "vocab.json"), USUAL)
            if not vocabulary.languages:
                raise UsageError(
                    self.folder.path,
                    "none of its files names the model's languages",
                    "copy special_tokens_map.json and tokenizer_config.json too",
                )
            self.folder.file(PIECES)
            kind, files = "sentencepiece", {PIECES: PIECES}
        text = Text(kind, files, source, "</s>", SEVERAL, task_settings=BOTH_SIDES)
        return text, (vocabulary, vocabulary)
