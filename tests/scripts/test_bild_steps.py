"""The steps of scripts/bild as a user runs them, on a tiny corpus and with a tiny verifier."""

import functools
import json

import pytest


@pytest.fixture
def run_bild(run_recipe):
    """Run a step of scripts/bild; the finished process."""
    return functools.partial(run_recipe, "bild", PROFILE="smoke")


@pytest.mark.slow
def test_all_steps_run_and_resume(run_bild, tiny_pair, tmp_path):
    done = run_bild(**tiny_pair)
    out = tmp_path / "work/bild"
    for name in ("greedy", "unaligned", "aligned", "early_exit"):
        lines = (out / f"decoded/{name}.out").read_text(encoding="utf-8").splitlines()
        assert sum(line.startswith("H-") for line in lines) == 100
        assert f"{name}: strategy " in done.stderr
    record = json.loads((out / "aligned/provenance.json").read_text(encoding="utf-8"))
    assert str(tmp_path) not in json.dumps(record["commands"])
    assert "--finetune-from-model" in json.dumps(record["commands"])
    again = run_bild(**tiny_pair)
    assert again.stderr.count("done before") == 5
