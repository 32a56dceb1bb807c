"""scripts/ende_small: a corpus and models for one machine, the papers' tables and claims."""

import filecmp
import json
import os

import launch
import pytest
from recipe import REPO

HOME = "ende_small/en-de"


@pytest.fixture
def dry(dry_run):
    """A dry run of the recipe whose corpus and verifier seem to be there."""
    dry_run.add_corpora("ende_small/bin", f"{HOME}/distilled")
    dry_run.add(f"{HOME}/models/verifier/model.pt")
    return dry_run


def overrides_of(dry, **settings):
    """The last value of every override that a training is started with, by its name."""
    dry.run("ende_small", "04_train_drafter", GPUS=2, **settings)
    (words,) = dry.calls()
    return dict(word.lstrip("+").split("=", 1) for word in words if "=" in word)


def test_a_drafter_has_the_published_shape_on_a_small_batch_in_bf16(dry):
    overrides = overrides_of(dry, MODELS="nar_drafter", PRECISION="bf16")
    assert overrides["task.data"] == f"'$WORK/{HOME}/distilled'"
    assert overrides["model.init_encoder_from"] == f"'$WORK/{HOME}/models/verifier/model.pt'"
    assert overrides["optimization.max_update"] == "2000" and overrides["model.block_size"] == "10"
    assert (
        overrides["optimization.update_freq"] == "[1]" and overrides["dataset.max_tokens"] == "1800"
    )
    assert (overrides["common.bf16"], overrides["common.fp16"]) == ("true", "false")
    raw = overrides_of(dry, MODELS="spec_drafter_raw", PRECISION="fp32", UPDATES=7)
    assert raw["task.data"] == "'$WORK/ende_small/bin'" and "common.bf16" not in raw
    assert raw["optimization.max_update"] == "7"


def test_the_processor_chooses_bf16_where_the_recipe_wants_it(dry, tmp_path):
    for text, able in (("flags\t: fpu avx512_bf16 amx\n", True), ("flags : avx512f\n", False)):
        (tmp_path / "cpuinfo").write_text(text)
        assert launch.computes_in_bf16(tmp_path / "cpuinfo") is able
    assert not launch.computes_in_bf16(tmp_path / "absent")
    here = "bf16" if launch.computes_in_bf16() else "fp32"
    assert launch.at_hand(cpu=True, bf16=True) == (1, here, "cpu")
    assert launch.at_hand(cpu=True, bf16=False) == (1, "fp32", "cpu")
    done = dry.run("ende_small", "04_train_drafter", GPUS=2, MODELS="nar_drafter")
    assert f"2 processes on 1 nodes, {here}, cpu" in done.stderr
    done = dry.run("wmt14_ende", "02_train_teacher", MODELS="verifier")
    assert "1 processes on 1 nodes, fp32, cpu" in done.stderr


def test_splits_are_measured_with_figures_of_sentences_for_the_claims(dry):
    dry.add(f"{HOME}/models/spec_drafter/model.pt", f"{HOME}/models/spec_drafter_25/model.pt")
    settings = {"SENTENCES": 20, "VALID_SENTENCES": 50, "TABLE_SETS": "drafters blocks"}
    dry.run("ende_small", "06_table", check=False, **settings)
    calls = [words for words in dry.calls() if words[0] == "specdec-bench"]
    assert all("--by-sentence" in words for words in calls)
    limits = {w[w.index("--gen-subset") + 1]: w[w.index("--limit") + 1] for w in calls}
    assert limits == {"test": "20", "valid": "50"}
    done = dry.run("ende_small", "06_table", check=False, **dict(settings, VALID_SENTENCES=60))
    (words,) = [words for words in dry.calls() if words[0] == "specdec-bench"]
    assert words[words.index("--limit") + 1] == "60"
    assert "measuring blocks again" in done.stderr


PAIR = REPO / "data-bin/demo_ende"


def test_the_corpus_is_in_the_verifiers_subwords_whatever_it_holds(run_recipe, own_text, tmp_path):
    run_recipe("ende_small", "01_prepare", **own_text)
    home = tmp_path / "work/ende_small"
    assert filecmp.cmp(home / "bin/dict.de.txt", PAIR / "dict.de.txt", shallow=False)
    assert filecmp.cmp(home / "prepared/codes", PAIR / "codes", shallow=False)
    assert os.path.samefile(home / "en-de/models/attached/model.pt", PAIR / "drafter.pt")
    assert (home / "raw/test.de").is_file()


def test_another_verifier_comes_with_its_subwords(run_recipe, own_text, tmp_path):
    words = tmp_path / "words"
    words.mkdir()
    for name in ("dict.en.txt", "dict.de.txt"):
        (words / name).write_text("the 7\n")
    (tmp_path / "own.pt").write_text("a verifier\n")
    own = {"VERIFIER": tmp_path / "own.pt", "DICTIONARIES": words, **own_text}
    done = run_recipe("ende_small", "01_prepare", check=False, **own)
    assert f"{words / 'codes'} is missing" in done.stderr and "Traceback" not in done.stderr
    (words / "codes").write_text("#version: 0.2\nt h\nth e</w>\n")
    run_recipe("ende_small", "01_prepare", **own)
    home = tmp_path / "work/ende_small"
    assert (home / "bin/dict.en.txt").read_text().startswith("the 7\n")
    assert (home / "en-de/models/verifier/model.pt").read_text() == "a verifier\n"
    assert not (home / "en-de/models/attached").exists()  # the demo pair's reads another one
    assert "done before" in run_recipe("ende_small", "01_prepare", **own).stderr


@pytest.mark.slow
def test_smoke_from_the_verifier_to_the_claims(run_recipe, tmp_path):
    settings = {
        "PROFILE": "smoke", "SENTENCES": 3, "TABLE_SETS": "drafters", "UPDATES": 2, "SAVE_EVERY": 1,
        "MODELS": "verifier attached heads_4 spec_drafter", "HEAD_UPDATES": 2,
    }  # fmt: skip
    done = run_recipe("ende_small", **settings)
    out = tmp_path / "work/ende_small.smoke/en-de"
    rows = json.loads((out / "bench/drafters.json").read_text(encoding="utf-8"))["runs"][0]["rows"]
    identical = {row["system"]: row["identical_percent"] for row in rows}
    assert identical["gad 12+2"] == identical["gad attached"] == identical["heads"] == 100
    tok = {row["system"]: row["tok"] for row in rows}
    assert tok["gad attached"] > 3  # the demo pair's own drafter, on its own sentences
    assert "Xia et al. Table 2" in done.stdout
    assert "The papers' claims, in our figures" in done.stdout
    assert done.stdout.endswith((out / "claims.md").read_text(encoding="utf-8"))
    verdicts = [
        line.split("|")[3].strip() for line in done.stdout.splitlines() if "| A drafter" in line
    ]
    assert verdicts[0] in ("holds", "does not hold", "undecided")
    assert "not run" in done.stdout  # of what MODELS leaves out
    again = run_recipe("ende_small", **settings)
    assert again.stderr.count("done before") >= 6
