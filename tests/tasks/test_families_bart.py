"""BART's own hub with this project's task, from a checkpoint that names its pretraining's task."""

import pytest
import torch
from fairseq.models.bart import BARTModel
from families_toys import NARROW, TRAINING
from in_process import SHAPE, run_here
from toy_cache import EVERYTHING, cached_folder, key
from toy_translation import WORDS, sentences, translate

LANGUAGES = {"source_lang": "in", "target_lang": "out"}
FLAGS = {**SHAPE, **NARROW, **TRAINING, **LANGUAGES, "layernorm_embedding": True}


@pytest.fixture(scope="module")
def bart(tmp_path_factory, fairseq_command):
    """A folder with a small BART whose every text begins with <s>, and its dictionaries."""

    def make(folder):
        words = "".join(f"w{word} 1\n" for word in range(WORDS))
        (folder / "dict.txt").write_text(words, encoding="utf-8")
        sources = sentences(4000, seed=4)
        for side, lines in (("in", sources), ("out", map(translate, sources))):
            text = "".join("<s> " + " ".join(f"w{w}" for w in line) + "\n" for line in lines)
            (folder / f"train.{side}").write_text(text, encoding="utf-8")
        fairseq_command(
            "preprocess", "-s", "in", "-t", "out", "--joined-dictionary", "--workers", 1,
            "--trainpref", folder / "train", "--destdir", folder, "--srcdict", folder / "dict.txt",
        )  # fmt: skip
        run_here("train", folder, task="translation", arch="bart_base", save_dir=folder, **FLAGS)
        path = folder / "checkpoint_last.pt"
        state = torch.load(str(path), weights_only=False)
        state["cfg"]["task"] = {**state["cfg"]["task"], "_name": "denoising"}
        torch.save(state, str(folder / "denoising.pt"))

    folder = tmp_path_factory.mktemp("bart")
    made = key(("bart", sorted(FLAGS.items())), (EVERYTHING,), [__file__])
    cached_folder(folder, made, make)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_barts_hub_generates_as_stock_does(bart, beam):
    """As for summaries: a forced first token, a least length, no 3-gram twice."""
    flags = {"beam": beam, "lenpen": 2.0, "min_len": 5, "no_repeat_ngram_size": 3, "max_len_b": 20}
    lines = ["<s> " + " ".join(f"w{w}" for w in line) for line in sentences(30, seed=9)]

    def outputs(name, **given):
        hub = BARTModel.from_pretrained(str(bart), name, str(bart), bpe=None, **LANGUAGES, **given)
        words = hub.task.source_dictionary
        sources = [words.encode_line(line, add_if_not_exist=False).long() for line in lines]
        return [ranked[0]["tokens"].tolist() for ranked in hub.generate(sources, **flags)]

    stock = outputs("checkpoint_last.pt")
    assert len(set(map(str, stock))) > 20
    for name in ("checkpoint_last.pt", "denoising.pt"):
        assert outputs(name, task="translation_specdec") == stock
