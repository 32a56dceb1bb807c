"""The page of processors."""

import pytest
from processors import gains


def row(cpu_ms):
    return {"cpu_ms_mean": cpu_ms}


def test_gains_are_over_greedy_in_the_same_format():
    runs = {
        "1": {
            "fairseq beam 1": row(90.0), "greedy": row(12.0), "gad": row(8.0), "gad++": row(6.0),
            "greedy, int8": row(7.0), "gad, int8": row(10.0),
        },
        "32": {
            "greedy": row(3.0), "gad": row(4.0), "greedy, int8": row(1.0), "gad, int8": row(2.0),
        },
    }  # fmt: skip
    assert gains(runs) == {
        "gad": {"1": pytest.approx(1.5), "32": pytest.approx(0.75)},
        "gad++": {"1": pytest.approx(2.0)},
        "gad, int8": {"1": pytest.approx(0.7), "32": pytest.approx(0.5)},
    }
