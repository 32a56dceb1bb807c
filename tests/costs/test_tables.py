"""Which figures hold: a file's, this machine's, or those that are shipped."""

import json
from types import SimpleNamespace

import pytest

from fairseq_specdec.costs import tables
from fairseq_specdec.costs.figures import load, save
from fairseq_specdec.engine.native import library


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """The library, and an empty cache folder."""
    native = library.load()
    if native is None:
        pytest.skip(library.why_not())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(tables.ENVIRONMENT)
    tables.of_machine.cache_clear()
    yield native
    tables.of_machine.cache_clear()


def other(start):
    return tables.shipped()._replace(start=start)


def test_a_machine_is_measured_once(loaded, monkeypatch):
    path = tables.kept_at(loaded.variant)
    assert not path.exists()
    monkeypatch.setattr(tables, "measured", lambda library: (tables.measure(library), 1.0))
    measured = tables.figures("auto", loaded)
    assert load(path) == measured
    monkeypatch.setattr(tables, "measured", None)  # not again
    tables.of_machine.cache_clear()
    assert tables.figures("auto", loaded) == measured


def test_kept_figures_are_used_and_damaged_ones_replaced(loaded, monkeypatch):
    path = tables.kept_at(loaded.variant)
    save(other(0.5), path)
    assert tables.figures("auto", loaded) == other(0.5)
    tables.of_machine.cache_clear()
    path.write_text("{")
    monkeypatch.setattr(tables, "measured", lambda library: (other(0.25), 1.0))
    assert tables.figures("auto", loaded) == other(0.25) == load(path)


def test_without_a_folder_to_write_to_they_are_measured(loaded, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(tables, "measured", lambda library: (other(0.25), 1.0))
    assert tables.figures("auto", loaded) == other(0.25)


def test_figures_of_a_busy_machine_are_used_and_not_kept(loaded, monkeypatch, caplog):
    path = tables.kept_at(loaded.variant)
    monkeypatch.setattr(tables, "known", lambda variant: None)
    for share, start in ((0.6, 0.25), (0.99, 0.5)):
        answer = (other(start), share)
        monkeypatch.setattr(tables, "measured", lambda _, answer=answer: answer)
        with caplog.at_level("INFO"):
            assert tables.figures("auto", loaded) == other(start)
        tables.of_machine.cache_clear()
        assert path.exists() == (share > 0.9)
        assert ("40% of the time: used now, not kept" in caplog.text) == (share < 0.9)
        caplog.clear()
    assert load(path) == other(0.5)


def test_a_busy_machine_of_a_known_processor_has_the_figures_of_that(loaded, monkeypatch, caplog):
    monkeypatch.setattr(tables, "known", {loaded.variant: other(0.75)}.get)
    for share, start in ((0.6, 0.75), (0.99, 0.5)):
        monkeypatch.setattr(tables, "measured", lambda _, share=share: (other(0.5), share))
        with caplog.at_level("INFO"):
            assert tables.figures("auto", loaded) == other(start)
        tables.of_machine.cache_clear()
        assert ("package's figures of this processor are used now" in caplog.text) == (share < 0.9)
        caplog.clear()


def test_processors_are_known_by_name_and_variant(monkeypatch):
    rows = json.loads(tables.KNOWN.read_text(encoding="utf-8"))
    assert len({(each["variant"], each["figures"]["processor"]) for each in rows}) == len(rows) > 1
    for each in rows:
        monkeypatch.setattr(tables, "processor", lambda each=each: each["figures"]["processor"])
        tables.known.cache_clear()
        figures = tables.known(each["variant"])
        assert figures.start == each["figures"]["start"] and figures.products["int7"]
        assert tables.known("aarch64") is None
    monkeypatch.setattr(tables, "processor", lambda: "another")
    tables.known.cache_clear()
    assert tables.known(rows[0]["variant"]) is None
    tables.known.cache_clear()


def test_a_measurement_reports_how_much_of_the_time_it_had(loaded, monkeypatch):
    clock = iter([1.0, 3.0])
    monkeypatch.setattr(tables.time, "perf_counter", lambda: next(clock))
    thread = iter([0.0, 0.5])
    monkeypatch.setattr(tables.time, "thread_time", lambda: next(thread))
    monkeypatch.setattr(tables, "measure", lambda library: other(0.5))
    assert tables.measured(loaded) == (other(0.5), 0.25)


def test_the_origin_of_figures_is_shown(loaded, tmp_path, monkeypatch):
    assert tables.origin("auto", loaded) == "measured at the first use"
    assert tables.origin("off", loaded) == f"shipped: {tables.shipped().processor}"
    path = tables.kept_at(loaded.variant)
    save(other(0.5), path)
    assert tables.origin("auto", loaded) == f"this machine's, {path}"
    monkeypatch.setenv(tables.ENVIRONMENT, str(path))
    assert tables.origin("auto", loaded) == f"{tables.ENVIRONMENT}: {path}"
    monkeypatch.setenv(tables.ENVIRONMENT, str(tmp_path / "none.json"))
    with pytest.raises(ValueError, match="none.json"):
        tables.origin("auto", loaded)


def test_a_file_or_the_shipped_ones_where_these_are_asked_for(loaded, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "measured", None)
    path = str(tmp_path / "x.json")
    save(other(0.5), path)
    assert tables.figures("off", loaded) == tables.shipped()
    assert tables.figures(path, loaded) == other(0.5)
    monkeypatch.setenv(tables.ENVIRONMENT, path)
    assert tables.figures("auto", loaded) == other(0.5)
    assert tables.figures("off", loaded) == tables.shipped()
    with pytest.raises(ValueError, match=r"^--cost-table: .*y.json: no figures of a processor"):
        tables.figures(str(tmp_path / "y.json"), loaded)


def test_each_variant_has_a_file_of_its_own():
    assert tables.kept_at("avx512") != tables.kept_at("x86_64_v3")


def test_other_variants_are_measured_on_their_own(loaded, monkeypatch):
    monkeypatch.setattr(tables, "measured", lambda each: (other(len(each.variant)), 1.0))

    class Other(SimpleNamespace):
        __hash__ = object.__hash__

    for name in ("one", "three"):
        assert tables.figures("auto", Other(variant=name)) == other(len(name))


def test_a_file_without_figures_is_refused_by_what_named_it(tmp_path, monkeypatch):
    path = str(tmp_path / "y.json")
    with pytest.raises(
        ValueError, match=r"^--cost-table: .*y.json: .*No such file.*specdec.costs.cli"
    ):
        tables.check(path)
    monkeypatch.setenv(tables.ENVIRONMENT, path)
    with pytest.raises(ValueError, match=r"^FAIRSEQ_SPECDEC_COST_TABLE: .*y.json"):
        tables.check("auto")
    tables.check("off")
    save(other(0.5), path)
    tables.check("auto")
