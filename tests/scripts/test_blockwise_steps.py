"""The steps of scripts/blockwise: which models they train and decode with, and how."""

import json

import pytest


def test_a_record_holds_what_a_model_was_made_of_and_it_is_made_once(dry_run):
    models = {"MODELS": "original/frozen_4 original/tuned_4"}
    dry_run.run("blockwise", "01_heads", **models)
    assert len(dry_run.calls()) == 2
    for way, count in (("frozen", 3), ("tuned", 2)):
        model = f"blockwise/original/{way}_4"
        record = json.loads((dry_run.work / f"{model}/provenance.json").read_text())
        assert len(record["commands"]) == count  # nothing of the model before
        assert "$WORK/bin/ende/train.en-de.de.bin" in record["inputs"]
        start = "$WORK/blockwise/original/frozen_4/model.pt"
        assert (start in record["inputs"]) == (way == "tuned")
        assert list(record["outputs"]) == [f"$WORK/{model}/model.pt"]
    again = dry_run.run("blockwise", "01_heads", **models)
    assert again.stderr.count("done before") == 2 and dry_run.calls() == []


@pytest.mark.slow
def test_all_steps_run_and_resume(run_recipe, tiny_pair, tmp_path):
    settings = dict(tiny_pair, MODELS="original/frozen_4 distilled/tuned_3")
    done = run_recipe("blockwise", **settings)
    out = tmp_path / "work/blockwise/decoded"
    texts = {}
    for name in ("greedy", "original_frozen_4", "distilled_tuned_3"):
        lines = (out / f"{name}.out").read_text(encoding="utf-8").splitlines()
        texts[name] = [line.split("\t")[2] for line in lines if line.startswith("H-")]
        assert len(texts[name]) == 100
        assert f"{name}: strategy " in done.stderr
    assert texts["original_frozen_4"] == texts["greedy"]  # a frozen base writes what it did
    again = run_recipe("blockwise", **settings)
    assert again.stderr.count("done before") == 3
