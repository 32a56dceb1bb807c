"""The generated tables of RESULTS.md."""

import json

import pytest
import result_tables


def batch(**cpu_ms):
    return {name.replace("_", ", "): {"ms": ms, "cpu": ms} for name, ms in cpu_ms.items()}


def test_gains_are_over_greedy_in_the_same_precision():
    runs = {
        "1": batch(greedy=12.0, gad=8.0, greedy_int8=7.0, gad_int8=10.0),
        "32": batch(greedy=3.0, gad=4.0, greedy_int8=1.0, gad_int8=2.0),
    }
    assert result_tables.gains(runs) == {
        "gad": {"1": pytest.approx(1.5), "32": pytest.approx(0.75)},
        "gad, int8": {"1": pytest.approx(0.7), "32": pytest.approx(0.5)},
    }


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """The page and its summaries, copied."""
    for name in ("PAGE", "CPU", "GPU"):
        path = getattr(result_tables, name)
        (tmp_path / path.name).write_bytes(path.read_bytes())
        monkeypatch.setattr(result_tables, name, tmp_path / path.name)


def test_a_table_that_differs_from_its_summary_is_found_and_mended(copies):
    before = result_tables.PAGE.read_text("utf-8")
    summary = result_tables.read(result_tables.CPU)
    summary["processors"]["zen5"]["translation"]["batches"]["1"]["greedy"]["ms"] = 1234.5
    result_tables.save(result_tables.CPU, summary)
    with pytest.raises(SystemExit, match="differs from its JSON; run benchmarks/"):
        result_tables.main(["--check"])
    result_tables.main([])
    result_tables.main(["--check"])
    lines = zip(before.splitlines(), result_tables.PAGE.read_text("utf-8").splitlines())
    assert [b.split(" | ")[1] for a, b in lines if a != b] == ["1234.50 / 2.49"]


def test_results_of_a_card_are_kept(copies, tmp_path):
    row = {"system": "greedy", "ms_mean": 2.0, "identical_percent": 100.0, "bleu": 40.0, "tok": 1.0}
    facts = {"machine": {"device": "a card"}, "commit": "0" * 40, "time": "2026-11-26T21:52:31Z"}
    run = {"provenance": {**facts, "versions": {"torch": "2.7.1"}}}
    run["runs"] = [{"batch_size": 1, "rows": [row]}]
    for name in ("ende_fp32", "ende_fp16"):
        (tmp_path / f"{name}.json").write_text(json.dumps(run))
    with pytest.raises(SystemExit, match="0 lines <!-- table: h100, translation -->"):
        result_tables.main(["--gpu", "h100", str(tmp_path)])
    made = result_tables.tables()
    assert "| greedy | 40.00 | 100.0% | 100.0% | 1.00 | 2.00 | 2.00 |" in made["h100, translation"]
    assert "| h100 | a card | 2026-11-26 | 00000000 | 2.7.1 |" in made["sources"]
    assert "h200, translation" in made
