"""Toys on disk: trained once, never out of date, made again where damaged."""

import pathlib

import pytest
import torch
import toy_cache
from toy_cache import cached, key, sources, trained

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("SPECDEC_TOYS", str(tmp_path / "toys"))
    return tmp_path / "toys"


def make(made):
    made.append(1)
    return b"weights"


def test_an_entry_is_made_once_and_again_where_it_is_damaged(empty):
    made = []
    assert cached("x", lambda: make(made)) == cached("x", lambda: make(made)) == b"weights"
    assert len(made) == 1
    whole = (empty / "x").read_bytes()
    for damaged in (whole[:-1], whole[:10], b"", whole[:-1] + b"S"):
        (empty / "x").write_bytes(damaged)
        assert cached("x", lambda: make(made)) == b"weights"
        assert (empty / "x").read_bytes() == whole
    assert len(made) == 5


def line(updates):
    """A model that learns to triple, and how often it was taught."""
    torch.manual_seed(1)
    model, taught = torch.nn.Linear(1, 1), []

    def teach():
        taught.append(torch.rand(1))
        with torch.no_grad():
            model.weight.fill_(float(updates))

    return trained(model, teach, updates), taught


def test_a_model_from_disk_is_the_one_that_was_trained():
    first, taught = line(3)
    after = torch.rand(1)
    again, not_taught = line(3)
    assert len(taught) == 1 and not not_taught
    assert torch.equal(after, torch.rand(1)), "random numbers go on as if nothing was trained"
    assert all(map(torch.equal, first.state_dict().values(), again.state_dict().values()))
    assert not again.training
    assert line(4)[0].weight.item() == 4


def test_a_key_holds_all_that_makes_a_toy(monkeypatch, tmp_path):
    drafter = "fairseq_specdec.models.spec_drafter"
    keys = {key(1), key(2), key((1, 2)), key(1, (drafter,)), key(1, (toy_cache.EVERYTHING,))}
    monkeypatch.setattr(torch, "__version__", "0.0.1")
    keys.add(key(1))
    assert len(keys) == 6
    monkeypatch.undo()
    before, changed = key(1), tmp_path / "toy_translation.py"
    changed.write_text("another recipe")
    monkeypatch.setattr(toy_cache, "trainers", lambda: [changed])
    sources.cache_clear()
    assert key(1) != before
    sources.cache_clear()
