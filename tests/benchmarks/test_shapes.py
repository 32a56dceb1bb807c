"""The benchmark of published shapes, with a tiny one."""

import re

import pytest
import shapes
import torch


@pytest.fixture
def tiny(monkeypatch):
    """Two layers and few words; torch's threads stay as they were."""
    threads = torch.get_num_threads()
    settings = shapes._shape(1, 32, 32, 2, **shapes.PRE_NORM)
    monkeypatch.setitem(shapes.SHAPES, "base", (60, settings))
    yield "base"
    torch.set_num_threads(threads)


def test_every_system_and_every_pass_has_its_figure(tiny, capsys):
    shapes.main([tiny, "--repeats", "1", "--sentences", "2", "--length", "12"])
    out = capsys.readouterr().out
    systems = re.findall(r"^\| ([^|]+) \| \d+ \|$", out, flags=re.M)
    assert systems[0] == "stock" and len(systems) == 1 + 3 * 4
    pairs = re.findall(r"^\| (?:fp32|int8|int7) \|(.+)\|$", out, flags=re.M)
    assert [len(re.findall(r"\d+\.\d / \d+\.\d", each)) for each in pairs] == [5, 5, 5]


@pytest.mark.parametrize("drafter, passes", [({"right": 2, "size": 5}, 9), ({"size": 3}, 7)])
def test_drafts_are_right_as_often_as_asked(tiny, tmp_path, drafter, passes):
    bench = shapes.make(tiny, 1, 24, str(tmp_path))
    (output,) = bench.outputs(bench.generator("fp32"))
    assert len(output) == 25
    replayed = shapes.Replayed(**drafter)
    replayed.output = output
    generator = bench.generator("fp32", replayed)
    assert bench.outputs(generator) == [output]
    assert generator.stats.iterations == passes  # 3 and 4 tokens per pass
