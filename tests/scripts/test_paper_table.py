"""The papers' tables beside our figures: what is compared, and what is marked."""

import json

import paper_table


def measured_row(folder, name, **row):
    """A run of one system, named ``name``, as ``SET.json``."""
    machine = {"machine": {"device": "a toy"}, "threads": 1, "versions": {}, "commit": "abc"}
    run = {"runs": [{"batch_size": 1, "rows": [row]}], "provenance": machine}
    (folder / f"{name}.json").write_text(json.dumps(run), encoding="utf-8")
    return paper_table.Measured(folder, None)


TABLE = """
notes: {tok: with </s>}
tables:
  Ge et al. Table 16:
    figures: tok memory_mb memory_mb@4
    notes: {memory_mb: not the same memory}
    rows: [[GAD, base/gad, 2, 9, 10]]
  Ge et al. Table 1:
    figures: tok
    rows: [[GAD, base/gad, 2]]
"""


def test_columns_of_another_kind_are_marked_and_explained(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(TABLE, encoding="utf-8")
    rows, marks = paper_table.read(path)
    measured = measured_row(tmp_path, "base", system="gad", tok=2.5, memory_mb=7.0)
    first, second = (paper_table.render([row], measured, marks) for row in rows)
    head = [cell.strip() for cell in first.splitlines()[0].split("|")[2:-1]]
    assert head == [
        "Tok. here (a)", "paper (a)",
        "MB here (b)", "paper (b)", "MB, batch 4 here (b)", "paper (b)",
    ]  # fmt: skip
    assert first.endswith("|\n\n(a) with </s>\n\n(b) not the same memory")
    assert "(a) with </s>" in second and "memory" not in second


OURS = """
tables:
  Ge et al. Table 5:
    figures: iter bleu
    rows:
      en-de:
        - for: {k: ['', ++]}
          row: ['GAD{k}', 'base/gad{k}', [4.9, 4.0], [28.73, 28.89]]
        - [NAR drafter, -, 1.6, 26.48]
      de-en: [[GAD, base/gad, -, 32.18]]
  Xia et al. Table 8:
    figures: memory_mb@4 ms.drafter ms_iter.drafter share.drafter text.sacrebleu
    rows: [[GAD, base/gad, 519.8, ~, 0.31, ~, 28.2]]
"""


def test_tables_set_our_figures_beside_the_papers(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(OURS, encoding="utf-8")
    row = {"system": "gad", "iter": 5.0, "bleu": 20.5, "speed_beam5": 24.8, "speed_greedy": 1.2}
    greedy = {"system": "greedy", "iter": 27.0, "ms_by_section": None}
    greedy.update(speed_beam5=20.6, speed_greedy=1.0)
    row["ms_by_section"] = {"drafter": 1.5, "verifier": 2.5, "rest": 1.0}
    run = {
        "runs": [
            {"batch_size": 1, "rows": [greedy, row]},
            {"batch_size": 4, "rows": [dict(row, memory_mb=77.0)]},
        ],
        "provenance": {
            "machine": {"device": "a toy"}, "threads": 1, "versions": {}, "commit": "abc",
        },
    }  # fmt: skip
    (tmp_path / "base.json").write_text(json.dumps(run), encoding="utf-8")
    scores = tmp_path / "scores.json"
    scores.write_text('{"base.gad": {"sacrebleu": 19.25}}', encoding="utf-8")
    output = tmp_path / "tables.md"
    paper_table.write(path, ["tables"], tmp_path, scores, "en-de", "toy", output)
    text = output.read_text(encoding="utf-8")
    cells = [
        [c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line
    ]
    ratios = ["speed vs beam 5 here", "speed vs this engine's greedy here"]
    assert cells[0] == ["row", "Iter. here", "paper", "BLEU here", "paper", *ratios]
    assert cells[2:6] == [
        [paper_table.GREEDY_ROW, "27.00", "-", "not run", "-", "20.60", "1.00"],
        ["GAD", "5.00", "4.9", "20.50", "28.73", "24.80", "1.20"],
        ["GAD++", "not run", "4.0", "not run", "28.89", "not run", "not run"],
        ["NAR drafter", "not run", "1.6", "not run", "26.48", "-", "-"],
    ]
    assert cells[6][3:11:2] == [
        "ms, drafter here",
        "ms, drafter, an iteration here",
        "% of time, drafter here",
        "sacreBLEU here",
    ]
    assert cells[8][0] == paper_table.GREEDY_ROW
    assert cells[9] == [
        "GAD", "77.00", "519.8", "1.50", "-", "0.30", "0.31", "30.00", "-", "19.25", "28.2",
        "24.80", "1.20",
    ]  # fmt: skip
    assert "32.18" not in text and "- base: device a toy" in text and "- toy" in text
