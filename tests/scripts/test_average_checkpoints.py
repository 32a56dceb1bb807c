"""Checkpoints of a run: their mean, what is kept and refused, a last one that was cut off."""

import argparse

import average_checkpoints
import models
import pytest
import torch


def checkpoint(value, **changes):
    tied = torch.full((300, 8), float(value)) + torch.arange(8.0)
    state = {
        "args": None,
        "cfg": {
            "common": {"user_dir": "/home/someone/fairseq_specdec", "seed": 1},
            "model": argparse.Namespace(save_dir="/home/someone/run", data="/home/someone/bin"),
            "generation": {"plasma": "/tmp/a/:b/", "empty": None},
        },
        "model": {
            "encoder.embed_tokens.weight": tied,
            "decoder.embed_tokens.weight": tied.clone(),
            "decoder.version": torch.tensor([3]),
        },
        "optimizer_history": [{"num_updates": value}],
        "extra_state": {"epoch": 2, "metrics": {"big": [0] * 1000}},
        "last_optimizer_state": {"exp_avg": torch.zeros(100_000)},
    }
    state.update(changes)
    return state


@pytest.fixture
def run_folder(tmp_path):
    """A run with four interval checkpoints and fairseq's other two."""
    for updates, value in ((800, 2), (900, 4), (1000, 9), (1100, 5)):
        torch.save(checkpoint(value), tmp_path / f"checkpoint_1_{updates}.pt")
    torch.save(checkpoint(100), tmp_path / "checkpoint_best.pt")
    torch.save(checkpoint(100), tmp_path / "checkpoint_last.pt")
    return tmp_path


def average(folder, *flags):
    output = folder / "out" / "average.pt"
    status = average_checkpoints.main([str(folder), "--output", str(output), *flags])
    return status, output


def test_the_newest_are_averaged_and_the_rest_is_dropped(run_folder):
    status, output = average(run_folder, "--last", "3")
    assert status == 0
    state = average_checkpoints.load(output)
    expected = torch.full((300, 8), 6.0) + torch.arange(8.0)
    assert torch.equal(state["model"]["encoder.embed_tokens.weight"], expected)
    assert state["model"]["decoder.version"].tolist() == [3]
    assert state["optimizer_history"] == [{"num_updates": 5}]
    assert state["extra_state"] == {"epoch": 2}
    assert "last_optimizer_state" not in state
    cfg = state["cfg"]  # without paths of the machine
    assert cfg["common"] == {"user_dir": "fairseq_specdec", "seed": 1}
    assert (cfg["model"].save_dir, cfg["model"].data) == ("run", "bin")
    assert cfg["generation"] == {"plasma": "a:b/", "empty": None}
    # An update that also ends an epoch is saved as the last checkpoint alone.
    torch.save(checkpoint(1300), run_folder / "checkpoint_last.pt")
    assert average_checkpoints.last_checkpoints(run_folder, 1)[0].name == "checkpoint_last.pt"


def test_a_frozen_part_is_put_back_unrounded(run_folder):
    base = run_folder / "base.pt"
    exact = torch.full((300, 8), 1.0 + 2.0**-20)
    torch.save({"model": {"encoder.embed_tokens.weight": exact}}, base)
    status, output = average(run_folder, "--last", "1", "--frozen", str(base))
    assert status == 0
    model = average_checkpoints.load(output)["model"]
    assert torch.equal(model["encoder.embed_tokens.weight"], exact)
    assert model["decoder.embed_tokens.weight"][0, 0] == 5.0


def test_half_precision_and_tied_parameters_save_space(run_folder):
    _, full = average(run_folder, "--last", "2")
    size = full.stat().st_size
    assert size < 300 * 8 * 4 * 2  # once, not twice
    _, half = average(run_folder, "--last", "2", "--half")
    assert half.stat().st_size < size - 300 * 8
    weights = average_checkpoints.load(half)["model"]
    assert weights["encoder.embed_tokens.weight"].dtype == torch.float16
    assert weights["decoder.version"].dtype == torch.int64


def cut_off(folder):
    path = folder / "checkpoint_1_1100.pt"
    path.write_bytes(path.read_bytes()[:2000])


def saved(name, state):
    return lambda folder: torch.save(state, folder / name)


SMALL = {"encoder.embed_tokens.weight": torch.zeros(2, 8)}


@pytest.mark.parametrize(
    "spoil, flags, reasons",
    [
        (lambda folder: None, ["--last", "5"], ["holds 4 checkpoints"]),
        (saved("checkpoint_1_1200.pt", checkpoint(1, model=SMALL)), ["--last", "2"],
         ["different parameters"]),
        (cut_off, ["--last", "1"], ["checkpoint_1_1100.pt", "cut off"]),
        (saved("checkpoint_1_1200.pt", checkpoint(1e6)), ["--last", "1", "--half"], ["fp16"]),
        (saved("base.pt", {"model": SMALL}), ["--last", "1", "--frozen", "{}/base.pt"],
         ["--frozen", "encoder.embed_tokens.weight"]),
        (lambda folder: None, ["--last", "0"], ["--last N (N >= 1) takes one folder"]),
    ],
)  # fmt: skip
def test_what_cannot_be_averaged_is_named(run_folder, caplog, spoil, flags, reasons):
    spoil(run_folder)
    status, output = average(run_folder, *(flag.format(run_folder) for flag in flags))
    assert status == 1 and not output.exists()
    assert all(reason in caplog.text for reason in reasons)


def test_a_number_that_nobody_set_is_no_obstacle(tmp_path):
    """fairseq up to 0.12.2 saves one with sinusoidal positions: whatever memory held."""
    name = "encoder.embed_positions._float_tensor"
    for unset in (3e38, float("nan")):
        state = {"model": {name: torch.tensor([unset]), "w": torch.ones(1)}}
        assert average_checkpoints.shrink(state, half=True)["model"][name].tolist() == [0]


def test_a_last_checkpoint_that_was_cut_off_is_replaced_by_the_newest(run_folder):
    last, newest = run_folder / "checkpoint_last.pt", run_folder / "checkpoint_1_1100.pt"
    whole = last.read_bytes()
    models.mend(run_folder)
    assert last.read_bytes() == whole
    for size in (0, 1000, len(whole) - 1):
        last.write_bytes(whole[:size])
        models.mend(run_folder)
        assert last.read_bytes() == newest.read_bytes()
    newest.write_bytes(whole[:5000])
    last.write_bytes(b"")
    models.mend(run_folder)
    assert last.read_bytes() == (run_folder / "checkpoint_1_1000.pt").read_bytes()
    for path in run_folder.glob("checkpoint_*.pt"):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match="delete it to start anew"):
        models.mend(run_folder)
