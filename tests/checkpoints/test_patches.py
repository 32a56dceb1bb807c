"""What becomes of a checkpoint's file that is missing, of other dictionaries, or cut off."""

import argparse
import re

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from in_process import run_here
from settings_payloads import with_settings
from toy_pair import write_pair

from fairseq_specdec.checkpoints.verifier import load_models
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator


def enlarged(trained, path, task, settings, layout):
    """The checkpoint with three symbols more on each side, as a task of its own adds them."""
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    state = with_settings(state, settings if layout == "args" else {}, layout)
    weights = dict(state["model"])
    for name, weight in weights.items():
        if "embed_tokens" in name or "output_projection" in name:
            weights[name] = torch.cat([weight, weight[:3]])
    if layout == "args":
        state["args"].task = task
    else:
        state["cfg"]["task"] = dict(settings, _name=task, data="x")
    torch.save(dict(state, model=weights), str(path))
    return str(path)


SIZES = (
    "trained with a source dictionary of 27 symbols (the data's has 24) and a target dictionary "
    "of 27 symbols (the data's has 24); "
)
REMEDY = "binarise the text with the model's dict.*.txt (fairseq-preprocess --srcdict, --tgtdict)"
ADDED = "its task {0} may have added some: decode it with {1}, or " + REMEDY
MOE = "--user-dir FOLDER_THAT_REGISTERS_IT --task translation_moe --num-experts 3"
SEVERAL, PAIRS = "multilingual_translation", {"lang_pairs": "src-tgt"}
# (task and settings of training, layout, task of decoding, what is said)
MISFITS = [
    ("translation", {}, "cfg", "translation_specdec", SIZES + REMEDY),
    ("translation", {"_name": "transformer"}, "args", "translation", SIZES + REMEDY),
    (SEVERAL, PAIRS, "cfg", "translation_specdec",
     SIZES + ADDED.format(SEVERAL, f"--task {SEVERAL}_specdec --lang-pairs src-tgt")),
    ("translation_moe", {"num_experts": 3}, "args", "translation_specdec",
     f"its task 'translation_moe' is unknown; decode it with {MOE}"),
]  # fmt: skip


@pytest.mark.parametrize("task, settings, layout, asked, said", MISFITS)
def test_other_dictionaries_are_named_before_the_model_is_built(
    task, settings, layout, asked, said, trained, reversal_data, tmp_path
):
    path = enlarged(trained, tmp_path / "a.pt", task, settings, layout)
    with pytest.raises(UsageError) as error:
        run_here("generate", reversal_data, path=path, beam=1, task=asked)
    shown = re.sub(r"/\S*dict\.\w+\.txt has", "the data's has", str(error.value))
    assert shown == f"{path}: {said}"


def test_missing_files_are_named_and_shards_are_found(trained, reversal_data, tmp_path):
    """fairseq passes the number of shards by position."""
    state = torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)
    for shard in range(2):
        torch.save(state, str(tmp_path / f"a_part{shard}.pt"))
    run_here(
        "generate", reversal_data, task="translation", path=tmp_path / "a.pt", beam=1,
        checkpoint_shard_count=2,
    )  # fmt: skip
    with pytest.raises(FileNotFoundError, match="no such file; name a model's checkpoint"):
        checkpoint_utils.load_model_ensemble([str(tmp_path / "b.pt")], task=argparse.Namespace())


STRIPPED = [{"optimizer_history": [], "extra_state": None}, {},
            {"optimizer_history": [{"num_updates": 3}], "extra_state": {}}]  # fmt: skip


def test_settings_and_weights_are_enough(tmp_path):
    path = write_pair(tmp_path) / "verifier.pt"
    state = torch.load(str(path), weights_only=False)
    texts = []
    for left in (state, *STRIPPED):
        torch.save({**{name: state.get(name) for name in ("args", "cfg", "model")}, **left}, path)
        made = SpeculativeTranslator.from_pretrained(path, bpe=None, device="cpu")
        texts.append(made.translate("w1 w2 w3"))
    assert texts == texts[:1] * len(texts)
    history = [{"num_updates": 3, "lr_scheduler_state": {}}]
    torch.save(dict(state, optimizer_history=history), path)
    read = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert read["optimizer_history"][-1]["num_updates"] == 3


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
    with pytest.raises(ValueError, match=r"^--x: .*x\.pt: its .* fconv_self_att .* is not built"):
        load_models("--x", [whole, path], task_of(reversal_data))
    with open(path, "wb") as stream:
        stream.write(open(whole, "rb").read()[:1000])
    with pytest.raises(ValueError, match=r"^--x: .*x\.pt: cannot be read as a checkpoint"):
        load_models("--x", [path], task_of(reversal_data))
