"""The rows of plain decoding that specdec-bench adds, and the speeds over them."""

import pytest

from fairseq_specdec.bench import greedy_rows, session, tables
from fairseq_specdec.bench.systems import Plan


@pytest.fixture
def names(pair):
    """Names of the rows of this engine that a command line has."""

    def read(*words):
        line = [pair.data, "--path", pair.v, "-s", "src", "-t", "tgt", "--cpu"]
        return [plan.name for plan in session.read([*line, *words]).plans]

    return read


@pytest.mark.parametrize(
    ("systems", "rows"),
    [
        (["a: --strategy iad"], ["greedy", "a"]),
        (["a: --strategy iad", "g: --strategy greedy"], ["a", "g"]),
        (["a: --strategy iad", "b: --strategy iad --block-size 3"], ["greedy", "a", "b"]),
        (["a: --strategy iad --beam 4"], ["greedy beam 4", "a"]),
        (["a: --strategy iad --beam 4", "g: --strategy greedy"], ["greedy beam 4", "a", "g"]),
        (["a: --strategy iad --verifier-dtype int8"], ["greedy int8", "a"]),
        (["greedy: --strategy iad"], ["greedy, plain", "greedy"]),
        (["n: --strategy none"], ["n"]),
        ([], []),
    ],
)
def test_each_beam_and_number_format_has_one(names, systems, rows):
    assert names(*(word for text in systems for word in ("--system", text))) == rows


def test_flags_of_a_strategy_before_system_are_not_for_the_added_row(names, pair):
    words = ["--strategy", "gad", "--drafter-path", pair.d, "--system", "a: --block-size 2"]
    assert names(*words) == ["greedy", "a"]
    with pytest.raises(ValueError, match="--trace-path"):
        names("--system", "a: --strategy iad", "--trace-path", "x")


def plan(name, strategy, beam=1, paths=("v",), dtype="fp32"):
    engine = {"verifier_dtype": dtype, "backend": "auto", "cuda_graphs": "auto"}
    settings = {"strategy": strategy, **engine} if strategy else {}
    return Plan(name, paths, {"beam": beam}, settings=settings)


def test_a_row_is_compared_with_its_own_verifier_beam_and_format():
    rows = [
        plan("stock 5", None, 5), plan("stock 1", None), plan("g", "greedy"),
        plan("h", "greedy", paths=("w",)), plan("g4", "greedy", 4),
        plan("g8", "greedy", dtype="int8"), plan("gad", "gad"),
        plan("heads", "blockwise", 1, ("w",)),
        plan("wide", "iad", 4, ("x",)), plan("small", "gad", dtype="int8"),
        plan("bf16", "gad", dtype="bf16"),
    ]  # fmt: skip
    compared = {row.name: greedy_rows.of(row, rows) for row in rows}
    assert {name: other and other.name for name, other in compared.items()} == {
        "stock 5": None, "stock 1": None, "g": "g", "h": "h", "g4": "g4", "g8": "g8", "gad": "g",
        "heads": "h", "wide": "g4", "small": "g8", "bf16": None,
    }  # fmt: skip


def test_speeds_over_greedy_are_ratios_of_total_times(bench, pair):
    result, printed = bench(
        "--system", f"gad: --strategy gad --drafter-path {pair.d}", "--limit", 3, "--warmup", 0,
    )  # fmt: skip
    rows = {row["system"]: row for row in result["runs"][0]["rows"]}
    assert rows["fairseq beam 5"]["speed_greedy"] is None and rows["greedy"]["speed_greedy"] == 1
    ratio = rows["greedy"]["ms_mean"] / rows["gad"]["ms_mean"]
    assert rows["gad"]["speed_greedy"] == pytest.approx(ratio)
    head, *lines = [line for line in printed.splitlines() if line.startswith("| ")]
    assert "vs greedy" in head
    (cells,) = [line for line in lines if line.startswith("| gad ")][:1]
    assert f" {rows['gad']['speed_greedy']:.2f}x |" in cells


def test_the_conclusion_names_what_drafting_gained():
    rows = [
        {"system": "fairseq beam 1", "identical_percent": 100, "speed_beam1": 1.0, "ms_mean": 27.0},
        {"system": "gad", "identical_percent": 100, "speed_beam1": 9.0, "speed_beam5": 20.0,
         "ms_mean": 3.0, "speed_greedy": 1.19},
    ]  # fmt: skip
    part = {"batch_size": 1, "rows": rows}
    assert tables.conclusion(part).endswith("20.0x beam 5, 1.19x this engine's greedy.")
    rows[1].update(system="greedy", speed_greedy=1.0)
    assert tables.conclusion(part).endswith("20.0x beam 5.")
