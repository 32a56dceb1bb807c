"""A recipe that is killed goes on where it was, and ends as if nothing had happened."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from average_checkpoints import load
from recipe_parts import REPO

STEPS = "01_prepare 02_train 05_decode"
# What is there at the moment of each kill: a corpus half prepared, a model half trained, an output
# half decoded. The last number of updates is 6.
MOMENTS = (
    "prepared/train.tok.source",
    "source-target/models/verifier/checkpoints/checkpoint_*_3.pt",
    "source-target/decoded/wikilarge.fairseq_beam_5.done",
)


def start(work):
    """The recipe in a process group of its own."""
    environment = dict(
        os.environ, WORK=str(work), PYTHON=sys.executable, PROFILE="smoke", DEVICE="cpu",
        THREADS="1", CUDA_VISIBLE_DEVICES="", STEPS=STEPS, MODELS="verifier", SMOKE_UPDATES="6",
        AVERAGE="3", SMOKE_MERGES="200", LENGTH_FLAGS="--max-len-b 10",
    )  # fmt: skip
    command = [str(REPO / "scripts" / "run"), "wikilarge"]
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def results(home):
    out = home / "source-target"
    outputs = {path.name: path.read_text(encoding="utf-8") for path in out.glob("decoded/*.out")}
    lines = {
        name: sorted(line for line in text.splitlines() if line.startswith(("H-", "D-")))
        for name, text in outputs.items()
    }
    scores = json.loads((out / "decoded/scores.json").read_text(encoding="utf-8"))
    return load(out / "models/verifier/model.pt")["model"], lines, scores


@pytest.mark.slow
def test_a_killed_recipe_goes_on(tmp_path):
    home = tmp_path / "killed/wikilarge.smoke"
    last = home / "source-target/models/verifier/checkpoints/checkpoint_last.pt"
    for moment in MOMENTS:
        process = start(tmp_path / "killed")
        try:
            while not list(home.glob(moment)):
                assert process.poll() is None, process.communicate()[1][-3000:]
                time.sleep(0.01)
        finally:
            kill(process)
        if "checkpoints" in moment:  # as a kill leaves it while fairseq copies it
            os.truncate(last, last.stat().st_size // 2)
    assert not (home / "source-target/decoded/provenance.json").exists()
    for work in ("killed", "whole"):
        process = start(tmp_path / work)
        _, log = process.communicate()
        assert process.returncode == 0, log[-3000:]
        assert ("done before" in log) == (work == "killed")
    (model, lines, scores), (wanted, *rest) = (
        results(tmp_path / work / "wikilarge.smoke") for work in ("killed", "whole")
    )
    assert [lines, scores] == rest and len(lines) >= 3 and all(lines.values())
    assert model.keys() == wanted.keys()
    assert all(torch.equal(model[name], wanted[name]) for name in model)
