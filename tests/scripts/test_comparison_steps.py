"""The steps of scripts/comparison: which models are made, and which rows are measured."""

import json
import os
import shlex
import shutil
import sys

import pytest

from fairseq_specdec.bench import session


def rows_of(words):
    """Flags of every --system by its name."""
    texts = [words[i + 1] for i, word in enumerate(words) if word == "--system"]
    rows = {name: shlex.split(flags) for name, flags in (text.split(":", 1) for text in texts)}
    assert len(rows) == len(texts)
    return rows


def test_models_are_made_in_the_folders_of_their_recipes(printed):
    calls = printed("comparison", "00_models", MODELS="original/frozen_4 distilled/tuned_4")
    made = [words[words.index("--save-dir") + 1] for words in calls if words[0] == "fairseq-train"]
    wanted = ["blockwise/original/frozen_4", "blockwise/distilled/tuned_4"]
    wanted += [f"bild/{name}" for name in ("small", "aligned", "early_exit")]
    assert made == [f"$WORK/{name}" for name in wanted]
    assert "fairseq-generate" not in {words[0] for words in calls}


def test_the_table_has_a_row_for_every_system(printed, tmp_path):
    drafter = tmp_path / "work/drafter/drafter.pt"
    words, shown = printed("comparison", "01_table", DRAFTER=drafter, SEPARATE_DRAFTER=drafter)
    assert words[:4] == ["specdec-bench", "$WORK/bin/ende", "--path", "$WORK/verifier/verifier.pt"]
    assert words[words.index("--batch-size") + 1] == "1" and "--limit" not in words
    rows = rows_of(words)
    assert len(rows) == 21
    # The command takes them: every flag is one of its own, every value one that makes sense.
    (tmp_path / "work/bin/ende").mkdir(parents=True)
    for path in {path for path in " ".join(words).split() if path.endswith(".pt")}:
        file = tmp_path / path.replace("$WORK", "work")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    asked = session.read([w.replace("$WORK", str(tmp_path / "work")) for w in words[1:]])
    assert [plan.name for plan in asked.plans] == list(rows)
    assert shown == ["measure.show", "$WORK/comparison/comparison.md"]


def test_settings_of_the_table_are_heeded(printed):
    settings = {
        "DRAFTER": "", "MODELS": "distilled/tuned_4", "ALPHA_FB": "0", "EXIT_ALPHA_RB": "3",
        "SENTENCES": 50, "LENGTH_FLAGS": "--max-len-b 60", "BENCH_FLAGS": "--warmup 1",
    }  # fmt: skip
    words, _ = printed("comparison", "01_table", **settings)
    rows = rows_of(words)
    assert list(rows) == [
        "greedy", "blockwise k=4 tuned distilled", "bild unaligned", "bild aligned",
        "bild-early-exit", "sps", "sps planned",
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
        "bild aligned", "bild-early-exit", "sps", "sps planned",
    ]  # fmt: skip
    text = (out / "comparison.md").read_text(encoding="utf-8")
    assert all(f"| {name} " in text for name in rows)
    warnings = [line for line in text.splitlines() if "WARNING" in line]
    assert all("of wall time" in line for line in warnings), "other than that the core was shared"
    assert rows["blockwise k=4 frozen"]["bleu"] == rows["greedy"]["bleu"]
