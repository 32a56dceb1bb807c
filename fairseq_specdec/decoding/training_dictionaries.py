"""The dictionaries that a drafter's checkpoint was trained with, as far as its settings say.

fairseq's multilingual tasks add a token of each language after the words of a dictionary's file, in
the order of ``--langs``. The settings name the languages; files are read in the folder of the data
alone.
"""

import os
from typing import Any

from fairseq.data import Dictionary, data_utils
from fairseq.data.multilingual.multilingual_utils import augment_dictionary
from fairseq.tasks.translation import TranslationTask

from fairseq_specdec.checkpoints.own_task import OwnTask
from fairseq_specdec.errors import UsageError
from fairseq_specdec.models.dictionary_digests import SIDES


class TrainingSettings(OwnTask):
    """The settings of a checkpoint's task."""

    def sides(self, folder: str) -> list[str | None]:
        """The languages whose dictionaries were the source's and the target's."""
        pairs = [pair.split("-") for pair in self.listed("lang_pairs")]
        guess = pairs[0] if pairs else data_utils.infer_language_pair(folder)
        return [self.get("source_lang") or guess[0], self.get("target_lang") or guess[1]]

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
    for side, language in zip(SIDES, settings.sides(folder)):
        file = os.path.join(folder, f"dict.{language}.txt")
        if os.path.isfile(file) and not settings.get(f"{side}_dict"):
            dictionary = TranslationTask.load_dictionary(file)
            for token in tokens:
                dictionary.add_symbol(token)
            dictionaries[side] = (file, dictionary)
    return dictionaries


def check_symbols(path: str, state: Any, src_dict: Any, tgt_dict: Any) -> None:
    """Compare the dictionaries that a drafter was trained with, as far as they are known.

    Older checkpoints do not hold their digests, only the folder that they came from.

    Raises:
        ValueError: the words or the languages differ from those of the verifier, or their order.
    """
    _check_languages(path, TrainingSettings(state).tokens(), tgt_dict)
    for side, (file, trained) in trained_dictionaries(state).items():
        if trained.symbols != {"source": src_dict, "target": tgt_dict}[side].symbols:
            raise UsageError(
                "--drafter-path",
                f"{path} was trained with {file}, whose symbols differ from those of the "
                "verifier's dictionary",
                "train the drafter on the verifier's dict.txt",
            )


def _check_languages(path: str, tokens: list[str] | None, dictionary: Any) -> None:
    """Refuse language tokens of another order, which sizes do not show."""
    if not tokens:
        return
    there = dictionary.symbols[-len(tokens) :]
    missing = [token for token in tokens if token not in dictionary]
    if missing:
        raise UsageError(
            "--drafter-path",
            f"{path} was trained with {missing[0]} in its dictionary, and the verifier's has none",
            "decode with the task and the languages of its training",
        )
    if there != tokens and sorted(there) == sorted(tokens):
        raise UsageError(
            "--drafter-path",
            f"{path} was trained with the languages in another order: its dictionary ends "
            f"with {' '.join(tokens)}, the verifier's with {' '.join(there)}",
            "train the drafter with the verifier's --langs",
        )
