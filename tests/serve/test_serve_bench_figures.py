"""Loads, percentiles, states and rows of the table."""

import math

import pytest

from fairseq_specdec.serve.bench.figures import (
    COLUMNS,
    Load,
    State,
    figures,
    head,
    loads_of,
    percentile,
    row,
    state_of,
)
from fairseq_specdec.serve.bench.load import LOST, UNREAD, Answer


def test_loads():
    assert loads_of("1, 16,80%,250%") == [
        Load("1", 1, 0), Load("16", 16, 0), Load("80%", 0, 0.8), Load("250%", 0, 2.5),
    ]  # fmt: skip
    for text in ("", "0", "1,,2", "0%", "1.5", "-1", "x", "99999"):
        with pytest.raises(ValueError, match=f"--bench-loads {text}: expected numbers"):
            loads_of(text)


@pytest.mark.parametrize(
    "percent, value", [(50, 5), (95, 10), (90, 9), (91, 10), (100, 10), (1, 1)]
)
def test_percentiles(percent, value):
    assert percentile([3, 1, 2, 5, 4, 9, 8, 7, 6, 10], percent) == value
    assert percentile([], percent) is None


METRICS = """# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
process_cpu_seconds_total 12.5
process_resident_memory_bytes 1.5e+08
specdec_batch_sentences_bucket{le="1.0"} 3.0
specdec_batch_sentences_count 4.0
specdec_batch_sentences_sum 9.0
"""


def test_states():
    assert state_of(METRICS) == State(12.5, 1.5e8, 9.0, 4.0)
    assert math.isnan(state_of("a 1").cpu)


def test_a_row_counts_every_answer():
    served = [Answer(200, 0.001 * n, n != 7) for n in range(1, 11)]
    others = [Answer(429, 0.1, False)] * 3 + [Answer(504, 9, False)]
    others += [Answer(LOST, 9, False), Answer(UNREAD, 9, False)]
    before, after = State(1.0, 100.0, 4, 2), State(1.5, 105.0, 14, 4)
    measured = figures("80%", [*served, *others], 2.0, before, after)
    assert (measured["requests"], measured["answered"], measured["other_texts"]) == (16, 10, 1)
    assert (measured["refused"], measured["failed"], measured["lost"]) == (3, {"504": 1}, 2)
    assert measured["per_second"] == 5 and measured["cpu_per_answer"] == 0.05
    assert measured["latency"] == {"50": 0.005, "95": 0.01, "99": 0.01, "100": 0.01}
    assert measured["together"] == 5 and measured["memory_growth"] == pytest.approx(0.05)
    cells = [each.strip() for each in row("x", measured).strip(" |\n").split("|")]
    assert cells == [
        "x", "80%", "10", "1", "3", "1, 2", "5.0", "5.0", "10.0", "10.0", "10.0", "50.0", "5.0",
        "+5.0%",
    ]  # fmt: skip
    assert len(cells) == len(COLUMNS) == head().splitlines()[1].count("-: |") + 2


def test_what_is_unknown_is_none():
    nothing = State(math.nan, math.nan, 0, 0)
    measured = figures("1", [Answer(LOST, 1, False)], 2.0, nothing, nothing)
    assert measured["latency"]["50"] is measured["cpu"] is measured["together"] is None
    assert measured["memory_growth"] is None and row("x", measured).count(" - ") == 7
