"""The picture of ``specdec-serve --bench``."""

import pytest

from fairseq_specdec.serve.bench import picture


def row(server, load, per_second, p50):
    latency = {"50": p50, "95": 3 * p50}
    return {
        "server": server, "load": load, "per_second": per_second, "latency": latency, "answered": 9,
    }  # fmt: skip


ROWS = [
    row("a", "32 clients", 90.0, 0.3),
    row("a", "80%", 80.0, 0.02),
    row("a", "20%", 20.0, 0.01),
    {**row("a", "200%", 0.0, 0.0), "answered": 0, "latency": {"50": None, "95": None}},
    row("b", "50%", 10.0, 0.05),
]


def test_a_server_has_its_open_loads_in_rising_order():
    loads = {name: [each["load"] for each in part] for name, part in picture.curves(ROWS).items()}
    assert loads == {"a": ["20%", "80%"], "b": ["50%"]}


@pytest.mark.parametrize("name, head", [("load.svg", b"<?xml"), ("load.png", b"\x89PNG")])
def test_it_is_drawn_as_its_name_ends(tmp_path, name, head):
    pytest.importorskip("matplotlib", reason="needs the extra plots")
    path = tmp_path / name
    picture.draw(str(path), ROWS, "a processor")
    first = path.read_bytes()
    assert first.startswith(head)
    picture.draw(str(path), ROWS, "a processor")
    assert path.read_bytes() == first
