"""The steps of scripts/comparison: which models are made, and which rows are measured."""

import json
import os
import shlex
import shutil
import sys

import pytest

from fairseq_specdec.bench import session

TRAINED = [
    *(f"blockwise/{c}/{w}" for c in ("original", "distilled") for w in ("frozen_4", "tuned_4")),
    *(f"blockwise/distilled/{w}" for w in ("frozen_8", "tuned_8")),
    *(f"bild/{name}" for name in ("small", "aligned", "early_exit")),
]

HEADS = "--strategy blockwise --path $WORK/blockwise"
BILD = "--drafter-path $WORK/bild"
GAD = "--draft-confidence 0.05 --drafter-path $WORK/drafter/drafter.pt"
ROWS = {
    "greedy": "--strategy greedy",
    "blockwise k=4 frozen": f"{HEADS}/original/frozen_4/model.pt",
    "blockwise k=4 tuned": f"{HEADS}/original/tuned_4/model.pt",
    "blockwise k=4 frozen distilled": f"{HEADS}/distilled/frozen_4/model.pt",
    "blockwise k=4 tuned distilled": f"{HEADS}/distilled/tuned_4/model.pt",
    "blockwise k=8 frozen distilled": f"{HEADS}/distilled/frozen_8/model.pt",
    "blockwise k=8 tuned distilled": f"{HEADS}/distilled/tuned_8/model.pt",
    "bild unaligned": f"--strategy bild {BILD}/small/model.pt --alpha-fb 0.6 --alpha-rb 2.0",
    "bild aligned": f"--strategy bild {BILD}/aligned/model.pt --alpha-fb 0.6 --alpha-rb 2.0",
    "bild-early-exit": "--strategy bild-early-exit --alpha-fb 0.5 --alpha-rb 1.0 "
    "--path $WORK/bild/early_exit/model.pt",
    "sps": f"--strategy sps {BILD}/aligned/model.pt --block-size 4",
    "gad": f"--strategy gad {GAD}",
    "gad++": f"--strategy gad++ --top-beta 3 --tau 1.0 {GAD}",
}


@pytest.fixture
def trained(dry_run):
    """A work folder after the first step."""
    dry_run.add(*(f"{name}/model.pt" for name in TRAINED), "drafter/drafter.pt")
    return dry_run


def rows_of(words):
    """Flags of every --system by its name."""
    texts = [words[i + 1] for i, word in enumerate(words) if word == "--system"]
    rows = {name: shlex.split(flags) for name, flags in (text.split(":", 1) for text in texts)}
    assert len(rows) == len(texts)
    return rows


def test_models_are_made_in_the_folders_of_their_recipes(dry_run):
    dry_run.run("comparison", "00_models", MODELS="original/frozen_4 distilled/tuned_4")
    calls = dry_run.calls()
    made = [words[words.index("--save-dir") + 1] for words in calls if words[0] == "fairseq-train"]
    wanted = ["blockwise/original/frozen_4", "blockwise/distilled/tuned_4", *TRAINED[-3:]]
    assert made == [f"$WORK/{name}" for name in wanted]
    assert "fairseq-generate" not in {words[0] for words in calls}


def test_the_table_has_a_row_for_every_system(trained):
    drafter = trained.work / "drafter/drafter.pt"
    trained.run("comparison", "01_table", DRAFTER=drafter)
    (words,) = trained.calls()
    assert words[:4] == ["specdec-bench", "$WORK/bin/ende", "--path", "$WORK/verifier/verifier.pt"]
    assert words[words.index("--batch-size") + 1] == "1" and "--limit" not in words
    rows = rows_of(words)
    assert rows == {name: words.split() for name, words in ROWS.items()}
    # The command takes them: every flag is one of its own, every value one that makes sense.
    asked = session.read([word.replace("$WORK", str(trained.work)) for word in words[1:]])
    assert [plan.name for plan in asked.plans] == list(rows)
    assert (trained.work / "comparison/comparison.md").is_file()
    again = trained.run("comparison", "01_table", DRAFTER=drafter)
    assert "done before" in again.stderr and trained.calls() == []


def test_settings_of_the_table_are_heeded(trained):
    settings = {
        "DRAFTER": "",
        "MODELS": "distilled/tuned_4",
        "ALPHA_FB": "0",
        "EXIT_ALPHA_RB": "3",
        "SENTENCES": 50,
        "LENGTH_FLAGS": "--max-len-b 60",
        "BENCH_FLAGS": "--warmup 1",
    }
    trained.run("comparison", "01_table", **settings)
    (words,) = trained.calls()
    rows = rows_of(words)
    assert list(rows) == [
        "greedy", "blockwise k=4 tuned distilled", "bild unaligned", "bild aligned",
        "bild-early-exit", "sps",
    ]  # fmt: skip
    assert " --alpha-fb 0 " in " ".join(rows["bild aligned"])
    assert " --alpha-rb 3 " in " ".join(rows["bild-early-exit"])
    for flag, value in (("--limit", "50"), ("--max-len-b", "60"), ("--warmup", "1")):
        assert words[words.index(flag) + 1] == value


@pytest.mark.slow
def test_the_table_is_measured(run_recipe, tiny_pair, tmp_path):
    """Every step, with few updates; a drafter for gad is not this recipe's to train."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    if shutil.which("specdec-bench", path=path) is None:
        pytest.skip("specdec-bench is not installed: run 'pip install -e .' again")
    models = {"MODELS": "original/frozen_4", "DRAFTER": "", "SENTENCES": 5}
    run_recipe("comparison", **dict(tiny_pair, **models))
    out = tmp_path / "work/comparison"
    (measured,) = json.loads((out / "comparison.json").read_text(encoding="utf-8"))["runs"]
    rows = {row["system"]: row for row in measured["rows"]}
    assert list(rows) == [
        "fairseq beam 5", "fairseq beam 1", "greedy", "blockwise k=4 frozen", "bild unaligned",
        "bild aligned", "bild-early-exit", "sps",
    ]  # fmt: skip
    text = (out / "comparison.md").read_text(encoding="utf-8")
    assert "WARNING" not in text and all(f"| {name} " in text for name in rows)
    assert rows["blockwise k=4 frozen"]["bleu"] == rows["greedy"]["bleu"]
