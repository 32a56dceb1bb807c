"""specdec-convert: its output decodes the same, says where it came from, overwrites nothing."""

import argparse
import dataclasses
import os

import pytest
import torch
from authors_layout import authors_checkpoint, authors_drafter, same_weights
from toy_translation import dictionary, toy_drafter

from fairseq_specdec.conversion import cli as convert
from fairseq_specdec.conversion import drafter as conversion
from fairseq_specdec.decoding.drafter_file import load_drafter
from fairseq_specdec.models.legacy_drafter import LegacyDrafter


@pytest.fixture
def released(tmp_path):
    path = tmp_path / "released.pt"
    torch.save(authors_checkpoint(authors_drafter(), data="data", noise="block_mask"), path)
    return path


def run(*words):
    convert.main(convert.get_parser().parse_args(["drafter", *map(str, words)]))


def loaded(path):
    words = dictionary()
    return load_drafter(str(path), words, words)


def test_another_output_needs_force(released, tmp_path):
    ours = tmp_path / "ours.pt"
    ours.write_text("something else")
    with pytest.raises(ValueError, match="--force"):
        run(released, ours)
    assert ours.read_text() == "something else"
    run(released, ours, "--force")
    model = loaded(ours)
    assert isinstance(model, LegacyDrafter) and same_weights(model, authors_drafter())
    assert sorted(os.listdir(tmp_path)) == ["ours.pt", "released.pt"], "no temporary file is left"


@pytest.mark.parametrize("style", ["command line", "plain"])
def test_an_older_drafter_of_this_project(style, tmp_path):
    model = toy_drafter(updates=0)
    settings = conversion.plain(dataclasses.asdict(model.cfg))
    settings = {key: item for key, item in settings.items() if not str(item).startswith("${")}
    settings.update(_name="spec_drafter_tiny", arch="spec_drafter_tiny", base_layers=0)
    for missing in ("chain_width", "chain_dropout", "attach_to", "read_layers"):
        del settings[missing]  # an earlier version knew none of these
    state = {"model": dict(model.state_dict()), "optimizer_history": []}
    state.update(extra_state={}, last_optimizer_state=None)
    if style == "plain":
        state.update(args=None, cfg={"model": settings, "task": {"_name": "translation"}})
    else:
        for side in ("encoder", "decoder", "quant_noise"):
            nested = settings.pop(side)
            settings.update({f"{side}_{key}": item for key, item in nested.items()})
        settings.update(task="translation", criterion="glancing_block_loss", optimizer="adam")
        state.update(args=argparse.Namespace(**settings, lr_scheduler="fixed"), cfg=None)
    torch.save(state, tmp_path / "old.pt")
    run(tmp_path / "old.pt", tmp_path / "new.pt")
    assert same_weights(loaded(tmp_path / "new.pt"), model)
    assert torch.load(tmp_path / "new.pt")["cfg"]["model"]["chain_width"] == 0


def test_what_is_no_drafter_is_named(tmp_path):
    with pytest.raises(ValueError, match="^input: no such file: .*absent.pt"):
        run(tmp_path / "absent.pt", tmp_path / "out.pt")
    state = authors_checkpoint(authors_drafter(), arch="transformer", _name="transformer")
    torch.save(state, tmp_path / "verifier.pt")
    with pytest.raises(ValueError, match="holds a transformer, no block drafter"):
        run(tmp_path / "verifier.pt", tmp_path / "out.pt")
    assert not (tmp_path / "out.pt").exists()
