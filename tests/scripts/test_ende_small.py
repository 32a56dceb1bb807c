"""scripts/ende_small: a corpus and models for one machine, the papers' tables and claims."""

import pytest

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


@pytest.mark.slow
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
