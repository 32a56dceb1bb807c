"""M2M-100 (Fan et al. 2020) and dense NLLB-200 (NLLB team 2022)."""

from typing import Dict, Tuple

from ..generation import Generation
from ..vocabulary import ANY_CODE, Vocabulary, assemble, languages_of, read_ids
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
# transformers' lists of languages by the tokenizer's ``language_codes``: their tokens follow
# vocab.json in this order, whether a file names them or not.
LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga "
    "gd gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}


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
            ids = read_ids(self.folder, "vocab.json")
            usual = self._usual_languages(ids)
            vocabulary = assemble(self.folder, {**ids, **usual}, USUAL, codes=ANY_CODE)
            vocabulary.languages.update(languages_of(usual.values()))
            if not vocabulary.languages:
                raise ValueError(
                    f"{self.folder.path}: none of its files names the model's languages; copy "
                    "special_tokens_map.json and tokenizer_config.json too"
                )
            self.folder.file(PIECES)
            kind, files = "sentencepiece", {PIECES: PIECES}
        text = Text(kind, files, source, "</s>", SEVERAL, task_settings=BOTH_SIDES)
        return text, (vocabulary, vocabulary)

    def _usual_languages(self, ids: Dict[int, str]) -> Dict[int, str]:
        """The tokens of ``LANGUAGES`` by id; {} where vocab.json or the model has no room."""
        kind = self.folder.json("tokenizer_config.json").get("language_codes") or "m2m100"
        codes = LANGUAGES.get(str(kind), "").split()
        usual = {len(ids) + i: f"__{code}__" for i, code in enumerate(codes)}
        taken = usual.keys() & ids.keys() or set(usual.values()) & set(ids.values())
        return {} if taken or len(ids) + len(codes) > self.words[0] else usual
