"""The models that a flag names are built, or refused by flag, file and remedy."""

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from settings_payloads import with_settings

from fairseq_specdec.checkpoints.verifier import load_models


def task_of(data, words=0):
    """A task over the toy's dictionary, with more words."""
    dictionary = TranslationTask.load_dictionary(f"{data}/dict.src.txt")
    for word in range(words):
        dictionary.add_symbol(f"another{word}")
    return TranslationTask(TranslationConfig(), dictionary, dictionary)


def test_what_cannot_be_built_is_named(trained, reversal_data, tmp_path):
    """A file cut off, dictionaries of other sizes, and code that may run what the file names."""
    whole, path = str(trained.checkpoint), str(tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"^--x: .*_last.pt: trained with .*; binarise the text"):
        load_models("--x", [whole], task_of(reversal_data, 3))
    state = torch.load(whole, weights_only=False)
    torch.save(with_settings(state, {"_name": "fconv_self_att"}, "cfg"), path)
    with pytest.raises(
        ValueError, match=r"^--x: .*x\.pt: its architecture fconv_self_att .* is not built"
    ):
        load_models("--x", [whole, path], task_of(reversal_data))
    with open(path, "wb") as stream:
        stream.write(open(whole, "rb").read()[:1000])
    with pytest.raises(ValueError, match=r"^--x: .*x\.pt: cannot be read as a checkpoint"):
        load_models("--x", [path], task_of(reversal_data))
