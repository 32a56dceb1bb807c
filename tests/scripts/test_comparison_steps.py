"""The steps of scripts/comparison: which models are made, and which rows are measured."""

import shlex

from fairseq_specdec.bench import session


def rows_of(words):
    """Flags of every --system by its name."""
    texts = [words[i + 1] for i, word in enumerate(words) if word == "--system"]
    rows = {name: shlex.split(flags) for name, flags in (text.split(":", 1) for text in texts)}
    assert len(rows) == len(texts)
    return rows


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
