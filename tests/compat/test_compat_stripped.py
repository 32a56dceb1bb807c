"""Checkpoints whose training state was removed are read."""

import argparse

import torch
from fairseq import checkpoint_utils
from toy_pair import write_pair

from fairseq_specdec.hub import SpeculativeTranslator

STRIPPED = [{"optimizer_history": None}, {"optimizer_history": [], "extra_state": None}, {},
            {"optimizer_history": [{"num_updates": 3}]}, {"extra_state": {}}]  # fmt: skip


def test_settings_and_weights_are_enough(tmp_path):
    path = write_pair(tmp_path) / "verifier.pt"
    state = torch.load(str(path), weights_only=False)
    texts = []
    for left in (state, *STRIPPED):
        torch.save({**{name: state.get(name) for name in ("args", "cfg", "model")}, **left}, path)
        made = SpeculativeTranslator.from_pretrained(path, bpe=None, device="cpu")
        texts.append(made.translate("w1 w2 w3"))
    assert texts == texts[:1] * len(texts)


def test_a_history_is_kept(tmp_path):
    args = argparse.Namespace(
        arch="transformer", task="translation", data="x", criterion="cross_entropy", lr=[0.1]
    )
    history = [{"num_updates": 3, "lr_scheduler_state": {}}]
    state = {"args": args, "model": {"w": torch.ones(1)}, "optimizer_history": history}
    torch.save(dict(state, extra_state={}), tmp_path / "checkpoint.pt")
    read = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint.pt"))
    assert read["optimizer_history"][-1]["num_updates"] == 3
