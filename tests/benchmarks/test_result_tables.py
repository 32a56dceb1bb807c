"""The generated tables of RESULTS.md."""

import json

import pytest
import result_tables


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """The pages and their summaries, copied."""
    for name in ("CPU", "GPU"):
        path = getattr(result_tables, name)
        monkeypatch.setattr(result_tables, name, tmp_path / path.name)
        (tmp_path / path.name).write_bytes(path.read_bytes())
    pages = [tmp_path / path.name for path in result_tables.PAGES]
    for copy, path in zip(pages, result_tables.PAGES):
        copy.write_bytes(path.read_bytes())
    monkeypatch.setattr(result_tables, "PAGES", pages)
    return {path.name: path.read_text("utf-8") for path in pages}


def test_a_table_that_differs_from_its_summary_is_found_and_mended(copies):
    summary = result_tables.read(result_tables.CPU)
    summary["processors"]["zen5"]["translation"]["batches"]["1"]["beam 5"]["ms"] = 1234.5
    result_tables.save(result_tables.CPU, summary)
    with pytest.raises(SystemExit, match="^RESULTS.md, README.md: a table differs from its JSON"):
        result_tables.main(["--check"])
    result_tables.main([])
    result_tables.main(["--check"])
    changed = [
        line.split(" | ")[cell]
        for page, cell in ((result_tables.PAGES[0], 1), (result_tables.PAGES[1], 4))
        for line in set(page.read_text("utf-8").splitlines()) - set(copies[page.name].splitlines())
    ]
    assert changed == ["1234.50 / 7.59", "1234.5"]


def test_results_of_a_card_are_kept(copies, tmp_path):
    row = {"system": "greedy", "ms_mean": 2.0, "identical_percent": 100.0, "bleu": 40.0, "tok": 1.0}
    facts = {"machine": {"device": "a card"}, "commit": "0" * 40, "time": "2026-11-26T21:52:31Z"}
    run = {"provenance": {**facts, "versions": {"torch": "2.7.1"}}}
    run["runs"] = [{"batch_size": 1, "rows": [row]}]
    for name in ("ende_fp32", "ende_fp16"):
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
    with pytest.raises(SystemExit, match="no page has a line <!-- table: h100, "):
        result_tables.main(["--gpu", "h100", str(tmp_path)])
    made = result_tables.tables()
    assert "| greedy | 40.00 | 100.0% | 100.0% | 1.00 | 2.00 | 2.00 |" in made["h100, translation"]
    assert "| h100 | a card | 2026-11-26 | 00000000 | 2.7.1 |" in made["sources"]
