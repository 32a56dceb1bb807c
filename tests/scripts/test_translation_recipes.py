"""The translation benchmarks: their tables agree with one another, the papers and the programs."""

import os
import time
from types import SimpleNamespace

import energy
import measure
import pytest
import recipe_config


@pytest.mark.parametrize(
    ("gpus", "each", "expected"),
    [(8, None, (4096, 4)), (1, None, (4096, 32)), (2, 2048, (2048, 32)), (64, None, (2048, 1)),
     (3, None, (4096, 11))],
)  # fmt: skip
def test_the_batch_stays_as_large_on_other_gpus(gpus, each, expected):
    paper = recipe_config.read("mt_nar_drafter_base")  # 8 GPUs, 4,096 tokens, 4 passes
    tokens, passes = expected
    assert recipe_config.batch_overrides(paper, gpus, each, print) == [
        f"dataset.max_tokens={tokens}", f"optimization.update_freq=[{passes}]",
    ]  # fmt: skip


def test_sentences_are_counted_where_the_paper_counts_them():
    paper, logged = recipe_config.read("bild_small"), []
    overrides = recipe_config.batch_overrides(paper, 4, 4096, logged.append)
    assert "dataset.batch_size=4" in overrides and "optimization.update_freq=[1]" in overrides
    assert "4 GPUs x 4 sentences x update-freq 1 = 16" in logged[0]


HOME = "$WORK/ende_small/en-de"
# A step that trains, its settings, and what it overrides.
TRAINED = [
    ("wmt14_ende", "05_train_drafter", {"MODELS": "spec_drafter"},
     {"optimization.update_freq": "[16]", "dataset.max_tokens": "4096",
      "common.fp16": "false",  # as in the papers on a P100
      "task.data": "'$WORK/wmt14_ende/en-de/distilled'"}),
    ("ende_small", "04_train_drafter", {"MODELS": "nar_drafter", "PRECISION": "bf16"},
     {"task.data": f"'{HOME}/distilled'", "common.bf16": "true", "common.fp16": "false",
      "model.init_encoder_from": f"'{HOME}/models/verifier/model.pt'", "model.block_size": "10",
      "optimization.max_update": "2000"}),
    ("ende_small", "04_train_drafter", {"MODELS": "spec_drafter_raw", "UPDATES": 7},
     {"task.data": "'$WORK/ende_small/bin'", "optimization.max_update": "7"}),
    # A model's own hyperparameters keep their batch, and yield to smoke.
    *(("wmt16_enro", "05_train_drafter", {"MODELS": "spec_drafter", "PROFILE": profile},
       {"optimization.lr": "[0.001]", "model.dropout": "0.2",
        "optimization.max_update": str(updates), "optimization.update_freq": f"[{passes}]"})
      for profile, updates, passes in (("full", 50000, 8), ("smoke", 12, 1))),
]  # fmt: skip


@pytest.mark.parametrize("recipe, step, settings, wanted", TRAINED)
def test_training_runs_under_torchrun_with_the_settings_of_the_paper(
    printed, recipe, step, settings, wanted
):
    given = {"DEVICE": "gpu", "PRECISION": "fp32", "GPUS": 2, **settings}
    words, averaging = printed(recipe, step, **given)
    assert words[:4] == ["torchrun", "--standalone", "--nproc_per_node", "2"]
    last = dict(word.lstrip("+").split("=", 1) for word in words if "=" in word)
    assert wanted.items() <= last.items()
    assert ("common.bf16" in last) == ("common.bf16" in wanted)
    assert averaging[-4:-2] == ["--last", "4" if recipe == "ende_small" else "10"]


def test_what_is_measured_otherwise_than_before_is_measured_again(tmp_path):
    systems, record, logged = tmp_path / "base.systems", tmp_path / "base.provenance.json", []
    step = SimpleNamespace(dry=False, log=logged.append)
    measure.note_systems(step, systems, record, "a", "base")
    record.write_text("{}")
    measure.note_systems(step, systems, record, "a", "base")
    assert record.exists() and not logged
    measure.note_systems(step, systems, record, "a b", "base")
    assert not record.exists() and systems.read_text() == "a b"
    assert logged == ["other systems or settings than before: measuring base again"]


def test_energy_is_watts_by_hours_by_the_papers_factor(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '80.5\\n99.5\\n'\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with energy.sampled("0") as figures:
        time.sleep(1)
    assert figures["watts"] == 90 and figures["hours"] > 1 / 3600
    assert figures["wh"] == pytest.approx(90 * figures["hours"] * 1.1)
