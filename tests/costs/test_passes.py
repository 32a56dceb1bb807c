"""Seconds of passes, from the work that they do."""

import pytest

from fairseq_specdec.costs.figures import Figures
from fairseq_specdec.costs.passes import linear, seconds
from fairseq_specdec.engine.work import Pass, Work

FIGURES = Figures(
    "a toy", (1, 2), {"fp32": (2.0, 1.5), "int8": (1.0, 1.0)}, (10.0, 100.0), (1.0, 4.0),
    {"fp32": 0.5, "int8": 0.25}, 7.0,
)  # fmt: skip


def work(**sizes):
    made = Work(breadth=sizes.pop("breadth", 0))
    for name, (multiply_adds, nbytes) in sizes.items():
        made.add(name, multiply_adds, nbytes)
    return made


def test_a_pass_computes_reads_and_does_what_lies_between():
    assert seconds(FIGURES, [], 1, 10) == 7
    assert seconds(FIGURES, [Pass(work(fp32=(100, 0)), 1)], 1, 10) == pytest.approx(207)
    assert seconds(FIGURES, [Pass(work(fp32=(100, 0)), 2)], 1, 10) == pytest.approx(307)
    assert seconds(FIGURES, [Pass(work(fp32=(100, 0)), 1)], 2, 10) == pytest.approx(307)
    assert seconds(FIGURES, [Pass(work(fp32=(0, 100)), 5)], 1, 10) == pytest.approx(107)
    assert seconds(FIGURES, [Pass(work(fp32=(0, 100)), 5)], 1, 100) == pytest.approx(407)
    assert seconds(FIGURES, [Pass(work(fp32=(0, 0), breadth=6), 2)], 1, 10) == pytest.approx(13)


def test_formats_are_counted_each_and_passes_added():
    both = work(fp32=(100, 0), int8=(50, 0))
    assert seconds(FIGURES, [Pass(both, 1)], 1, 10) == pytest.approx(7 + 200 + 50)
    two = [Pass(work(fp32=(100, 0)), 1), Pass(work(int8=(50, 0)), 1)]
    assert seconds(FIGURES, two, 1, 10) == pytest.approx(257)
    assert seconds(FIGURES, [Pass(both, 0)], 1, 10) == 7


def test_passes_one_after_the_other_are_counted_each():
    place = work(fp32=(100, 0), breadth=4)
    assert seconds(FIGURES, [Pass(place, 1, 3)], 1, 10) == pytest.approx(7 + 3 * 202)
    assert seconds(FIGURES, [Pass(place, 0.5, 6)], 2, 10) == pytest.approx(7 + 6 * 202)


def test_weights_of_one_stack_are_counted_together():
    counted = work(fp32=(1, 2))
    counted.add("fp32", 10, 20)
    assert counted.multiply_adds == {"fp32": 11} and counted.nbytes == 22


def test_a_line():
    times = linear(0.25, 0.5)
    assert [times.verifying(tokens) for tokens in (1, 2, 5)] == [1, 1.25, 2]
    assert [times.drafting(*each) for each in ((1, 1), (2, 2))] == [0.5, 0.875]
