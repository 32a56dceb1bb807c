"""Read a drafter's checkpoint; refuse other files, and those of other dictionaries as far as the
settings of their training say."""

import os
from typing import Any

from fairseq.data import Dictionary, data_utils
from fairseq.data.multilingual.multilingual_utils import augment_dictionary
from fairseq.models.speech_to_text import S2TTransformerModel
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks.translation import TranslationTask

from fairseq_specdec.checkpoints.content import architecture, read_state, reads_speech
from fairseq_specdec.checkpoints.decoding_memory import only_to_decode
from fairseq_specdec.checkpoints.own_task import OwnTask
from fairseq_specdec.checkpoints.verifier import Decoding, load_models
from fairseq_specdec.engine.support import STOCK_DECODERS, check_model
from fairseq_specdec.errors import UsageError
from fairseq_specdec.models.block_decoder import BlockDecoder
from fairseq_specdec.models.legacy_drafter import ARCHITECTURES, OWN_ARCHITECTURE
from fairseq_specdec.models.verifier_tables import reads_tables, why_not

# What a block drafter has and no other model.
MASK = "decoder.mask_embedding"
# All block drafters have it but those in the authors' layout, whose mask is <unk>.
LEGACY = (OWN_ARCHITECTURE, *ARCHITECTURES)
FLAG = "--drafter-path"


def load_drafter(
    path: str | None, src_dict: Any, tgt_dict: Any, state: dict[str, Any] | None = None
) -> Any:
    """Load the checkpoint of a block drafter. Raises ValueError: no path, no such file, unreadable,
    not a drafter, or of other dictionaries."""
    state = read_drafter(path) if state is None else state
    if not _is_block_drafter(state):
        raise UsageError(
            FLAG,
            f"{path} is no block drafter (it has no [MASK] embedding)",
            "were --path and --drafter-path swapped?",
        )
    model = _build(path, state, src_dict, tgt_dict)
    if not isinstance(model.decoder, BlockDecoder):
        raise UsageError(FLAG, f"{path} holds a {type(model).__name__}, no drafter")
    return model


@only_to_decode()
def load_small_model(path: str | None, src_dict: Any, tgt_dict: Any) -> Any:
    """Load the checkpoint of a small autoregressive model that drafts token by token."""
    state = read_drafter(path)
    if _is_block_drafter(state):
        raise UsageError(
            FLAG,
            f"{path} is a block drafter, and this strategy drafts with a small autoregressive "
            "TransformerModel",
            "give one, or use --strategy gad",
        )
    model = _build(path, state, src_dict, tgt_dict)
    decoder = getattr(model, "decoder", None)
    known = (TransformerModelBase, S2TTransformerModel)
    if not isinstance(model, known) or type(decoder) not in STOCK_DECODERS:
        raise UsageError(
            FLAG,
            f"{path} holds a {type(model).__name__} with decoder {type(decoder).__name__}",
            "this strategy drafts with fairseq TransformerModel checkpoints only",
        )
    check_model(model, f"--drafter-path: {path}")
    return model


def _is_block_drafter(state: Any) -> bool:
    return MASK in state["model"] or architecture(state) in LEGACY


def read_drafter(path: str | None) -> Any:
    """The content of a drafter's checkpoint."""
    if not path:
        raise UsageError(FLAG, "this strategy needs a drafter", "give its checkpoint")
    return read_state(FLAG, path)


def _build(path: Any, state: Any, src_dict: Any, tgt_dict: Any) -> Any:
    """The model, once its dictionaries are known to be the verifier's."""
    weights = state["model"]
    _check_source(path, weights, src_dict)
    for side, dictionary in (("encoder", src_dict), ("decoder", tgt_dict)):
        table = weights.get(f"{side}.embed_tokens.weight")
        if table is None:  # an attached drafter has no encoder, perhaps its verifier's tables
            continue
        rows = table.size(0)
        if rows != len(dictionary):
            raise UsageError(
                FLAG,
                f"its {side} dictionary has {rows} symbols, the verifier's {len(dictionary)}",
                "train the drafter on the verifier's dict.txt",
            )
    check_symbols(path, state, src_dict, tgt_dict)
    return load_models(FLAG, [path], Decoding(src_dict, tgt_dict), state=state)[0][0]


def _check_source(path: Any, weights: Any, src_dict: Any) -> None:
    """Refuse a drafter that reads words where the source is speech, and the other way round."""
    reads_words = "encoder.embed_tokens.weight" in weights
    if (reads_words and src_dict is None) or (reads_speech(weights) and src_dict is not None):
        reads, source = ("words", "speech") if reads_words else ("speech", "text")
        raise UsageError(
            FLAG,
            f"{path} reads {reads}, and the source of this task is {source}",
            "give a drafter that was trained under the verifier's task",
        )


def check_reading(drafter: Any, verifier: Any, flag: str) -> None:
    """Refuse a verifier that an attached drafter cannot read; any other drafter reads none. Raises
    ValueError: the verifier has too few decoder layers or another width."""
    layers = getattr(drafter.encoder, "read_layers", None)
    if not layers:
        return
    width = drafter.decoder.embed_dim
    words = len(drafter.decoder.dictionary) if reads_tables(drafter) else None
    wrong = why_not(verifier, width, layers[-1], words)
    if wrong:
        raise UsageError(
            flag,
            f"the drafter reads decoder layer {layers[-1]} of a verifier {width} wide, and "
            f"this one {wrong}",
            "use the verifier that the drafter was trained with",
        )


# ---- the dictionaries of training ---------------------------------------------------------------


class TrainingSettings(OwnTask):
    """The settings of the task that a checkpoint was trained with.

    fairseq's multilingual tasks add a token of each language after the symbols of a dictionary's
    file, in the order of ``--langs``.
    """

    @property
    def several(self) -> bool:
        """Whether the model has language tokens, of several pairs."""
        return self.get("lang_tok_style") is not None

    def pairs(self) -> list[str]:
        """The pairs of a model with language tokens of several pairs, as far as the settings name
        them; [] of any other."""
        return self.listed("lang_pairs") if self.several else []

    def tokens(self) -> list[str] | None:
        """What follows the words of the file in a dictionary; None where the settings do not say.

        Where the file itself holds them (``--fixed-dictionary``) nothing follows.
        """
        languages = self.languages()
        if languages is None or self.get("fixed_dictionary"):
            return None
        made = Dictionary()
        own = len(made)
        style = self.get("lang_tok_style") or "multilingual"
        if self.get("lang_pairs") is None:  # translation_from_pretrained_bart
            style = "mbart"
        specs = self.get("langtoks_specs") or ("main",)
        if languages:
            augment_dictionary(made, languages, style, specs, self.get("extra_data"))
        return list(made.symbols[own:])


def trained_dictionaries(state: Any) -> dict[str, tuple[str, Any]]:
    """(file, dictionary) by side, of a checkpoint's training, where they are still there.

    A multilingual model's have its language tokens; where its settings do not name these, there is
    nothing.
    """
    settings = TrainingSettings(state)
    folder, tokens = str(settings.get("data") or "").split(os.pathsep)[0], settings.tokens()
    # A relative folder was relative to wherever the drafter was trained.
    if tokens is None or not os.path.isabs(folder) or not os.path.isdir(folder):
        return {}
    dictionaries = {}
    pairs = [pair.split("-") for pair in settings.listed("lang_pairs")]
    guess = pairs[0] if pairs else data_utils.infer_language_pair(folder)
    for side, guessed in zip(("source", "target"), guess):
        language = settings.get(f"{side}_lang") or guessed
        file = os.path.join(folder, f"dict.{language}.txt")
        if os.path.isfile(file) and not settings.get(f"{side}_dict"):
            dictionary = TranslationTask.load_dictionary(file)
            for token in tokens:
                dictionary.add_symbol(token)
            dictionaries[side] = (file, dictionary)
    return dictionaries


def check_symbols(path: str, state: Any, src_dict: Any, tgt_dict: Any) -> None:
    """Compare the dictionaries that a drafter was trained with, as far as they are known: a
    checkpoint names the folder that they came from.

    Raises:
        ValueError: the words or the languages differ from those of the verifier, or their order.
    """
    tokens = TrainingSettings(state).tokens() or []
    known = set(tokens)
    there = [token for token in tgt_dict.symbols if token in known]
    if there != tokens:
        raise UsageError(
            FLAG,
            f"{path} was trained with the languages {' '.join(tokens)} in its dictionary, and the "
            f"verifier's has {' '.join(there) or 'none of them'}",
            "decode with the task and the --langs of its training",
        )
    for side, (file, trained) in trained_dictionaries(state).items():
        if trained.symbols != {"source": src_dict, "target": tgt_dict}[side].symbols:
            raise UsageError(
                FLAG,
                f"{path} was trained with {file}, whose symbols differ from those of the "
                "verifier's dictionary",
                "train the drafter on the verifier's dict.txt",
            )
