"""The figures of this processor, as far as they must be so on any."""

import math

import pytest

from fairseq_specdec.costs import measure as measure_module
from fairseq_specdec.costs.figures import FORMATS, checked
from fairseq_specdec.costs.measure import ROWS, SIZES, measure
from fairseq_specdec.engine.native import library


@pytest.fixture(scope="module")
def figures():
    loaded = library.load()
    if loaded is None:
        pytest.skip(library.why_not())
    return measure(loaded)


def test_they_are_whole(figures):
    parts = {name: list(values) for name, values in figures.products.items()}
    lists = {name: list(getattr(figures, name)) for name in ("rows", "sizes", "reads")}
    assert checked({**figures._asdict(), **lists, "products": parts}) == figures
    assert figures.rows == ROWS and figures.sizes == SIZES


@pytest.mark.parametrize("name", FORMATS)
def test_they_are_of_a_processor(name, figures):
    """Between ten thousand thousand million operations per second and ten million."""
    for each in figures.products[name]:
        assert 1e-13 < each < 1e-7
    assert 0 < figures.between[name] < 1e-5
    assert all(1e-13 < each < 1e-7 for each in figures.reads)
    assert 0 < figures.start < 1e-2
    assert math.isfinite(figures.multiply(name, 7, 1.0))


def test_a_product_that_was_disturbed_takes_no_longer_than_one_with_more_rows(figures):
    assert measure_module._rising({1: 1.0, 2: 9.0, 4: 3.0, 8: 4.0}) == {
        1: 1.0,
        2: 3.0,
        4: 3.0,
        8: 4.0,
    }
    for each in figures.products.values():
        times = [rows * one for rows, one in zip(figures.rows, each)]
        assert times == pytest.approx(sorted(times))


def test_memory_is_timed_while_the_thread_runs(monkeypatch):
    """An interruption takes more time than the search."""

    def interrupted():
        raise AssertionError("the clock of the wall was read")

    monkeypatch.setattr(measure_module.time, "perf_counter", interrupted)
    sizes, reads = measure_module._reads()
    assert sizes == SIZES and 1e-12 < reads[-1] < 1e-9
