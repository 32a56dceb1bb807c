"""``specdec-accelerate`` makes a drafter and a report, goes on where it was, and refuses early."""

import json

import pytest
import torch

from fairseq_specdec.accelerate import steps
from fairseq_specdec.accelerate.commands import Job
from fairseq_specdec.accelerate.state import State
from fairseq_specdec.accelerate.steps import Limits

SMALL = ("--updates", 6, "--limit", 40, "--eval-sentences", 8, "--measure-sentences", 8)


def state_of(out):
    return json.loads((out / "state.json").read_text(encoding="utf-8"))["steps"]


def test_from_a_verifier_to_a_report(accelerate, monkeypatch, capsys):
    """Ctrl-C after the first slice of training; the same command goes on and ends."""
    whole, begun = steps.run, []

    def stopped(job, words, log):
        if log == "train.log":
            begun.append(words)
            if len(begun) == 2:
                raise KeyboardInterrupt
        return whole(job, words, log)

    monkeypatch.setattr(steps, "run", stopped)
    with pytest.raises(SystemExit) as ended:
        accelerate(*SMALL)
    assert ended.value.code == 130
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "Ctrl-C" in line]
    assert "go on with: specdec-accelerate " in line and "--updates 6" in line

    monkeypatch.setattr(steps, "run", whole)
    out = accelerate(*SMALL)
    found = state_of(out)
    assert found["distil"]["counts"]["chosen"] == 40
    assert found["train"]["updates"] == 6 and len(found["train"]["history"]) == 2
    assert all(each["done"] for each in found.values())
    assert found["measure"]["rows"]["gad"]["identical_percent"] == 100.0
    drafter = torch.load(str(out / "drafter.pt"), weights_only=False)
    assert "last_optimizer_state" not in drafter and "decoder.mask_embedding" in drafter["model"]
    page = (out / "report.html").read_text(encoding="utf-8")
    rows = found["measure"]["rows"]
    ways = {name: row for name, row in rows.items() if name.startswith("gad")}
    assert all(row["identical_percent"] == 100.0 for row in ways.values())
    fastest = min(ways, key=lambda name: ways[name]["ms_mean"])
    assert ("--draft-confidence" in page) == ("doubt" in fastest)
    assert "--strategy gad" in page and "drafter.pt" in page and "6 updates" in page

    def unwanted(*args):
        raise AssertionError("a step that is done was run again")

    monkeypatch.setattr(steps, "run", unwanted)
    (out / "report.html").unlink()
    accelerate(*SMALL)
    assert (out / "report.html").read_text(encoding="utf-8") == page


def test_raw_text_is_binarised(accelerate, toy, monkeypatch):
    """Up to the distillation, which is not run."""

    class ReachedError(Exception):
        pass

    def reached(*args):
        raise ReachedError

    monkeypatch.setattr(steps, "distil", reached)
    with pytest.raises(ReachedError):
        accelerate(
            "--trainpref", toy / "train", "--validpref", toy / "valid", "-s", "src", "-t", "tgt",
            data=toy,
        )  # fmt: skip


def test_a_step_that_fails_says_why(accelerate):
    with pytest.raises(SystemExit, match=r"error: distil: --beam 100.*distil\.log") as ended:
        accelerate(*SMALL, "--beam", 100)
    assert str(ended.value).startswith("specdec-accelerate: error: ")


def without_encoder(state):
    state["model"] = {k: v for k, v in state["model"].items() if not k.startswith("encoder")}


def without_embeddings(state):
    del state["model"]["encoder.embed_tokens.weight"]


def with_one_layer(state):
    weights = state["model"]
    state["model"] = {k: v for k, v in weights.items() if not k.startswith("decoder.layers.1.")}


@pytest.mark.parametrize(
    "change, said",
    [
        (without_encoder, "a decoder without an encoder"),
        (without_embeddings, "no Transformer for text"),
        (with_one_layer, "1 decoder layers; drafting with 2 layers would cost"),
    ],
)
def test_what_will_not_pay_is_refused(accelerate, toy, tmp_path, change, said):
    state = torch.load(str(toy / "verifier.pt"), weights_only=False)
    change(state)
    torch.save(state, str(tmp_path / "other.pt"))
    with pytest.raises(SystemExit, match=said):
        accelerate(path=tmp_path / "other.pt")


@pytest.mark.parametrize(
    "words, said",
    [
        (("--hours", 0), "--hours 0.0: must be above 0"),
        (("--hours", 1, "--updates", 5), "--hours and --updates: choose one"),
        (("--limit", 0), "--limit 0: must be 1 or more"),
        (("--accepted", 1), "--accepted 1.0: must be above 1"),
        (("--trainpref", "x"), "--trainpref and --validpref: give both"),
    ],
)
def test_flags_that_make_no_sense(accelerate, words, said):
    with pytest.raises(SystemExit, match=said):
        accelerate(*words)


def test_files_that_are_missing(accelerate, toy, tmp_path):
    with pytest.raises(SystemExit, match="--path: no such file"):
        accelerate(path=tmp_path / "none.pt")
    with pytest.raises(SystemExit, match="no such folder"):
        accelerate(data=tmp_path / "none")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    with pytest.raises(SystemExit, match="was not made by this command"):
        accelerate()


def test_other_settings_are_refused_by_name(accelerate, monkeypatch):
    class ReachedError(Exception):
        pass

    def reached(*args):
        raise ReachedError

    monkeypatch.setattr(steps, "distil", reached)
    with pytest.raises(ReachedError):
        accelerate("--hours", 1)
    with pytest.raises(SystemExit, match="--beam 5: .* was begun with 1"):
        accelerate("--hours", 1, "--beam", 5)
    with pytest.raises(ReachedError):
        accelerate("--hours", 2)  # more time is no other setting


@pytest.mark.parametrize(
    "history, accepted, ends",
    [
        ([], None, False),
        ([2.0, 2.2, 2.1], None, False),
        ([2.0, 2.2], 2.2, True),
        ([2.0, 2.2], 2.3, False),
        ([2.3, 2.0, 2.2, 2.1, 2.2], None, True),
        ([2.3, 2.0, 2.2, 2.1, 2.4], None, False),
    ],
)
def test_training_ends_by_accepted_tokens(history, accepted, ends):
    assert bool(steps._enough(history, Limits(None, 10, accepted, None))) is ends


def test_the_pace_decides_how_many_updates_there_are():
    hours = Limits(1.0, None, None, None)
    assert steps._planned({"updates": 100, "seconds": 50.0}, hours, left=200.0) == 500
    assert steps._planned({"updates": 100, "seconds": 50.0}, hours, left=-5.0) == 100
    assert steps._planned({}, Limits(None, 70, None, None), left=0.0) == 70


@pytest.mark.parametrize(
    "content, what", [([1], "holds a list"), ({"model": {}, "extra_state": {}}, "its model has no")]
)
def test_what_training_left_is_checked_before_it_is_the_drafter(tmp_path, content, what):
    job = Job("d", "v.pt", str(tmp_path), "s", "t", 5, True, False, 1000, 1, 8)
    state = State(str(tmp_path), {})
    state.note("train", updates=6, history=[1.5], seconds=1.0)
    (tmp_path / "training").mkdir()
    best = tmp_path / "training" / "checkpoint_best.pt"
    torch.save(content, str(best))
    with pytest.raises(ValueError, match=f"{best}: {what}"):
        steps.train(job, state, Limits(None, 6, None, None), None)
    assert not (tmp_path / "drafter.pt").exists()
