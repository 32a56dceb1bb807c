"""Big Little Decoder and early exit through fairseq's own commands."""

import pytest
import torch
from attempts import generate, words_of
from in_process import SHAPE

EXIT = {"arch": "early_exit_transformer", "exit_layer": 1, "criterion": "early_exit_loss"}


@pytest.fixture(scope="module")
def early_exit(toy, train_here):
    """Checkpoint of an early-exit model that started from the plain verifier, and the log."""
    folder, log = train_here(
        task="translation", finetune_from_model=toy.v, max_update=60, label_smoothing=0.0,
        validate_interval_updates=60, keep=True, **EXIT, **SHAPE,
    )  # fmt: skip
    return str(folder / "checkpoint_last.pt"), log


@pytest.fixture(scope="module")
def small(train_here):
    folder, _ = train_here(
        task="translation", arch="transformer", criterion="cross_entropy", max_update=120,
        disable_validation=True, keep=True, **dict(SHAPE, decoder_layers=1),
    )  # fmt: skip
    return str(folder / "checkpoint_last.pt")


def test_training_starts_from_a_plain_checkpoint_and_logs_both_depths(toy, early_exit):
    path, log = early_exit
    assert "exit_nll_loss" in log and "agreement" in log
    plain = torch.load(toy.v, map_location="cpu", weights_only=False)["model"]
    ours = torch.load(path, map_location="cpu", weights_only=False)["model"]
    assert plain.keys() == ours.keys()
    moved = (ours["decoder.layers.1.fc1.weight"] - plain["decoder.layers.1.fc1.weight"]).norm()
    assert float(moved) < 0.5 * float(plain["decoder.layers.1.fc1.weight"].norm())


def test_one_checkpoint_decodes_alone_and_as_its_own_small_model(toy, early_exit):
    path, _ = early_exit
    stock = words_of(generate(toy, path=path, task="translation")[0])
    task = {"path": path, "task": "translation_specdec", "strategy": "bild-early-exit"}
    assert words_of(generate(toy, alpha_rb=0, **task)[0]) == stock
    out, log = generate(toy, alpha_fb=0.5, alpha_rb=1.0, **task)
    ours = words_of(out)
    assert len(ours) == 100
    assert sum(ours[n] == stock[n] for n in stock) >= 50
    assert "strategy bild-early-exit: 100 sentences" in log


def test_a_small_and_a_big_checkpoint_decode_together(toy, small):
    stock = words_of(generate(toy, path=toy.v, task="translation")[0])
    task = {"path": toy.v, "task": "translation_specdec", "strategy": "bild"}
    both = dict(task, drafter_path=small)
    assert words_of(generate(toy, alpha_rb=0, **both)[0]) == stock
    assert words_of(generate(toy, alpha_fb=1, **both)[0]) == stock
    out, log = generate(toy, alpha_fb=0.5, alpha_rb=2.0, block_size=5, **both)
    assert sum(words_of(out)[n] == stock[n] for n in stock) >= 50
    assert "strategy bild: 100 sentences" in log
    nucleus = dict(both, sampling=True, sampling_topp=0.8, seed=3)
    assert generate(toy, **nucleus)[0].count("H-") == 100


def test_swapped_checkpoints_are_noticed(toy, small):
    both = {"task": "translation_specdec", "strategy": "bild", "drafter_path": toy.v}
    _, log = generate(toy, path=small, **both)
    assert "--drafter-path" in log and "swapped" in log
