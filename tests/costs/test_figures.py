"""What a processor takes: times by rows and sizes, and files of them."""

import json
import math

import pytest

from fairseq_specdec.costs.figures import FORMATS, checked, load, save
from fairseq_specdec.costs.tables import shipped


def test_a_file_holds_what_was_saved(tmp_path):
    path = tmp_path / "new" / "costs.json"
    save(shipped(), path)
    assert load(path) == shipped()


@pytest.mark.parametrize("name", FORMATS)
def test_products_take_what_was_timed_and_between_them_what_lies_between(name):
    figures = shipped()
    for rows, each in zip(figures.rows, figures.products[name]):
        assert figures.multiply(name, rows, 1e6) == pytest.approx(1e6 * rows * each)
    first, second = figures.rows[-3:-1]
    middle = figures.multiply(name, (first + second) / 2, 1.0)
    ends = figures.multiply(name, first, 1.0), figures.multiply(name, second, 1.0)
    assert middle == pytest.approx(sum(ends) / 2)
    most = figures.rows[-1]
    assert figures.multiply(name, 3 * most, 1.0) == pytest.approx(
        3 * figures.multiply(name, most, 1.0)
    )
    assert figures.multiply(name, 0.5, 1.0) == pytest.approx(figures.multiply(name, 1, 1.0) / 2)


def test_what_the_caches_do_not_hold_is_read_more_slowly():
    figures = shipped()
    times = [figures.read(1000, size) for size in (1, *figures.sizes, 10 * figures.sizes[-1])]
    assert times[0] == times[1] and times[-1] == times[-2]
    assert times[-1] > times[0] > 0
    assert figures.read(2000, figures.sizes[1]) == pytest.approx(2 * times[2])


def test_computing_hides_reading_and_the_other_way_round():
    figures = shipped()
    assert figures.overlapped(0, 0) == 0
    assert figures.overlapped(3, 0) == figures.overlapped(0, 3) == pytest.approx(3)
    assert 3.2 < figures.overlapped(3, 3) < 4
    assert 3 < figures.overlapped(3, 1) < 3.1


@pytest.mark.parametrize("number_format, both", [("halves", 5.0), ("int8", 7.0)])
def test_memory_is_read_ahead_less_than_caches(number_format, both):
    figures = shipped()
    size = figures.sizes[-1]
    assert figures.overlapped(3, 4, 2 * size, number_format) == pytest.approx(both)
    half = figures.overlapped(3, 4, (size + figures.sizes[-2]) / 2, number_format)
    assert figures.overlapped(3, 4, 1.0, number_format) < half < both


def test_what_a_cache_holds_ends_at_the_size_after_16_mib():
    """Not at the last size, where sizes between were measured."""
    given = shipped()
    sizes = (*given.sizes[:-1], float(24 << 20), given.sizes[-1])
    figures = given._replace(sizes=sizes, reads=(*given.reads, given.reads[-1]))
    at = {size: figures.overlapped(3, 4, size, "halves") for size in sizes}
    assert at[sizes[-2]] == at[sizes[-1]] == pytest.approx(5.0)
    assert at[sizes[-3]] == given.overlapped(3, 4, sizes[-3], "halves") < 4.6


WRONG = {
    "no object": lambda given: [given],
    "a key more": lambda given: dict(given, more=1),
    "a key less": lambda given: {key: given[key] for key in list(given)[1:]},
    "processor": lambda given: dict(given, processor=5),
    "rows that do not begin at 1": lambda given: dict(given, rows=[2, *given["rows"][1:]]),
    "rows that fall": lambda given: dict(given, rows=[1, 3, 2, *given["rows"][3:]]),
    "rows that are no numbers": lambda given: dict(given, rows=["1"]),
    "half a row": lambda given: dict(given, rows=[1, 1.5, *given["rows"][2:]]),
    "too few times": lambda given: dict(given, rows=[*given["rows"], 99]),
    "an unknown format": lambda given: dict(given, products=dict(given["products"], fp8=[1])),
    "a time of 0": lambda given: dict(given, start=0),
    "a time that is none": lambda given: dict(given, start=math.nan),
    "an endless time": lambda given: dict(given, between=dict(given["between"], int8=math.inf)),
    "a time that is true": lambda given: dict(given, start=True),
    "no reads": lambda given: dict(given, reads=[]),
    "fewer reads": lambda given: dict(given, reads=given["reads"][1:]),
    "sizes that fall": lambda given: dict(given, sizes=given["sizes"][::-1]),
    "a number of between": lambda given: dict(given, between=3),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_are_no_figures_is_refused_by_the_name_of_the_file(wrong, tmp_path):
    given = json.loads(json.dumps(shipped()._asdict()))
    assert checked(given) == shipped()
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(WRONG[wrong](given)))
    with pytest.raises(
        ValueError, match="costs.json: no figures .* as fairseq_specdec.costs.cli writes them"
    ):
        load(path)


def test_a_file_from_before_int7_was_timed_has_its_times_from_int8():
    given = json.loads(json.dumps(shipped()._asdict()))
    given["products"]["int7"] = [each / 2 for each in given["products"]["int8"]]
    given["between"]["int7"] = 0.5
    assert checked(given).products["int7"] == tuple(given["products"]["int7"])
    assert checked(given).between["int7"] == 0.5
    for part in ("products", "between"):
        del given[part]["int7"]
    figures = checked(given)
    assert figures.products["int7"] == figures.products["int8"]
    assert figures.between["int7"] == figures.between["int8"]
    del given["products"]["bf16"]
    with pytest.raises(ValueError, match="products are not of fp32"):
        checked(given)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_refused_too(content, tmp_path):
    path = tmp_path / "costs.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="costs.json: no figures"):
        load(path)
    with pytest.raises(ValueError, match="missing.json: .*No such file"):
        load(tmp_path / "missing.json")
