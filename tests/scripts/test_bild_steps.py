"""The steps of scripts/bild as a user runs them, on a tiny corpus and with a tiny verifier."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
TINY = (
    "--share-all-embeddings --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 "
    "--encoder-attention-heads 2 --decoder-layers {} --decoder-embed-dim 16 "
    "--decoder-ffn-embed-dim 16 --decoder-attention-heads 2"
)


@pytest.fixture
def run_bild(tmp_path):
    """Run a step of scripts/bild in a work folder of its own; the finished process."""

    def run(step, check=True, **settings):
        environment = dict(
            os.environ,
            WORK=str(tmp_path / "work"),
            PYTHON=sys.executable,
            THREADS="1",
            OMP_NUM_THREADS="1",
            CUDA_VISIBLE_DEVICES="",
            PROFILE="smoke",
        )
        environment.update({name: str(value) for name, value in settings.items()})
        done = subprocess.run(
            ["bash", str(REPO / "scripts" / "bild" / f"{step}.sh")],
            cwd=str(tmp_path),
            env=environment,
            capture_output=True,
            text=True,
        )
        assert not check or done.returncode == 0, done.stderr[-4000:]
        return done

    return run


@pytest.mark.slow
def test_all_steps_run_and_resume(run_bild, reversal_data, tmp_path, fairseq_command):
    fairseq_command(
        "train", reversal_data, "--cpu", "--arch", "transformer", *TINY.format(2).split(),
        "--optimizer", "adam", "--lr", 2e-3, "--max-update", 30, "--batch-size", 32,
        "--disable-validation", "--no-epoch-checkpoints", "--save-dir", tmp_path / "big",
    )  # fmt: skip
    settings = {
        "BIN": reversal_data,
        "VERIFIER": tmp_path / "big/checkpoint_last.pt",
        "SRC": "src",
        "TGT": "tgt",
        "VERIFIER_FLAGS": TINY.format(2),
        "SMALL_FLAGS": TINY.format(1),
        "SMALL_UPDATES": 4,
        "ALIGN_UPDATES": 2,
        "EXIT_UPDATES": 2,
        "DISTILL_FLAGS": "--on-length-limit keep",  # so little training teaches no </s>
        "LENGTH_FLAGS": "--max-len-b 12",
    }
    done = run_bild("run_all", **settings)
    out = tmp_path / "work/bild"
    for name in ("greedy", "unaligned", "aligned", "early_exit"):
        lines = (out / f"decoded/{name}.out").read_text(encoding="utf-8").splitlines()
        assert sum(line.startswith("H-") for line in lines) == 100
        assert f"{name}: strategy " in done.stderr
    record = json.loads((out / "aligned/provenance.json").read_text(encoding="utf-8"))
    assert str(tmp_path) not in json.dumps(record["commands"])
    assert "--finetune-from-model" in json.dumps(record["commands"])
    again = run_bild("run_all", **settings)
    assert again.stderr.count("done before") == 5


@pytest.mark.parametrize(
    ("step", "settings", "remedy"),
    [
        ("01_small", {}, "run the step that makes it first"),
        ("03_align", {}, "run the step that makes it first"),
        ("05_decode", {}, "run the step that makes it first"),
        ("01_small", {"PROFILE": "large"}, "PROFILE"),
        ("run_all", {"STEPS": "99_nothing"}, "99_nothing"),
    ],
)
def test_mistakes_are_named_with_their_remedy(run_bild, step, settings, remedy):
    done = run_bild(step, check=False, **settings)
    assert done.returncode != 0
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr
