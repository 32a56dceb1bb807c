"""Mistakes end a command before anything is decoded, with the flag or file and the remedy.

The commonest are in commands/test_mistakes.py.
"""

import random
import shutil

import pytest
import torch
from in_process import run_here

GAD = {"strategy": "gad", "block_size": 4}


@pytest.mark.parametrize(
    "flags, text",
    [
        ({"strategy": "iad", "drafter_path": "d"}, ["--drafter-path", "iad", "leave it out"]),
        (dict(GAD, drafter_path="d", block_size=5), ["--block-size 5", "blocks of 4", "or less"]),
        (dict(GAD, path="d", drafter_path="v"), ["--path", "drafter", "swapped"]),
    ],
    ids=str,
)
def test_strategy_flags(attempt, toy, flags, text):
    paths = {"v": toy.v, "d": toy.d}
    message = attempt(**{name: paths.get(value, value) for name, value in flags.items()})
    for part in text:
        assert part in message


@pytest.mark.parametrize(
    "flags",
    [{"constraints": "ordered"}, {"sampling_topk": 5}, {"replace_unk": "", "dataset_impl": "raw"}],
    ids=lambda flags: next(iter(flags)),
)
def test_generation_flags_that_cannot_be_honoured(attempt, toy, flags, tmp_path):
    data = toy.data
    if "dataset_impl" in flags:  # the only format that fairseq allows with this flag
        data = tmp_path
        for language in ("src", "tgt"):
            shutil.copy(str(toy.data / f"dict.{language}.txt"), str(tmp_path))
            (tmp_path / f"test.src-tgt.{language}").write_text("w1 w2\n", encoding="utf-8")
    flag = "--" + next(iter(flags)).replace("_", "-")
    assert attempt(data=data, strategy="iad", **flags).startswith(flag + ":")


def test_language_models(attempt, toy):
    """fairseq loads the file of --lm-path first, so one that it can load."""
    assert attempt(lm_path=toy.v).startswith("--lm-path:")


def test_flags_of_interactive(attempt):
    message = attempt(command="interactive", constraints="ordered", buffer_size=16)
    assert message.startswith("--constraints:")


def altered(path, folder, change):
    state = torch.load(path, weights_only=False)
    change(state)
    torch.save(state, str(folder / "altered.pt"))
    return str(folder / "altered.pt")


def test_a_drafter_with_other_symbols(attempt, toy, tmp_path):
    (tmp_path / "train.src-tgt.src.idx").write_bytes(b"")  # names the languages
    for language in ("src", "tgt"):
        lines = (toy.data / f"dict.{language}.txt").read_text(encoding="utf-8").splitlines(True)
        random.Random(1).shuffle(lines)
        (tmp_path / f"dict.{language}.txt").write_text("".join(lines), encoding="utf-8")

    def move(state):
        state["cfg"]["task"]["data"] = str(tmp_path)

    message = attempt(drafter_path=altered(toy.d, tmp_path, move), **GAD)
    assert "--drafter-path" in message and str(tmp_path / "dict.src.txt") in message
    assert "dict.txt" in message


def test_a_checkpoint_that_is_no_model(attempt, tmp_path):
    torch.save({"optimizer": 1}, str(tmp_path / "x.pt"))
    message = attempt(drafter_path=str(tmp_path / "x.pt"), **GAD)
    assert "--drafter-path" in message and "x.pt" in message


def test_beam_1_needs_no_word(toy):
    _, log = run_here(
        "generate", toy.data, task="translation_specdec", path=toy.v, batch_size=16, beam=1
    )
    assert "--beam" not in log
