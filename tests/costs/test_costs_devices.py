"""Devices that were measured as a whole."""

import json

import pytest
import torch
from toy_translation import toy_model

from fairseq_specdec.costs import devices
from fairseq_specdec.costs.devices import Device
from fairseq_specdec.engine.eager.decoder import layer_bytes

TOY = Device("cpu", "float32", 1, 1 << 30, 0.05, 0.5)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Puts rows instead of the table that is shipped."""

    def put(*rows):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps([row._asdict() for row in rows]))
        monkeypatch.setattr(devices, "TABLE", path)

    return put


@pytest.mark.parametrize(
    "other", [{"device": "Abacus"}, {"dtype": "float16"}, {"least": 1 << 29}, {"most": 1000}]
)
def test_a_row_holds_for_its_device_format_and_size(table, other):
    models = [toy_model(updates=1)]
    table()
    usual = devices.of_models(models)
    assert usual.column > 0
    table(TOY._replace(**other))
    assert devices.of_models(models) == usual
    table(TOY._replace(**other), TOY._replace(dtype="any"))
    assert devices.of_models(models) == TOY._replace(dtype="any")


def test_the_size_is_that_of_all_layers_and_models(table):
    model = toy_model(updates=1)
    size = sum(4 * each.numel() for each in model.decoder.layers.parameters())
    assert layer_bytes(model.decoder) == size > 1000
    for models in ([model], [model, model]):
        whole = len(models) * size
        for least, most, known in ((whole, whole, 1), (whole + 1, 2 * whole, 0), (1, whole - 1, 0)):
            row = TOY._replace(least=least, most=most, graphs=8)
            table(row)
            assert (devices.of_models(models) == row) == bool(known)
            assert devices.rows_for_graphs(models) == 8 * known


def test_graphs_that_a_row_does_not_speak_of_were_not_measured(tmp_path, table):
    path = tmp_path / "x.json"
    row = dict(TOY._asdict())
    del row["graphs"]
    path.write_text(json.dumps([row]))
    assert devices.read(path) == (TOY,)
    table(TOY)
    assert devices.rows_for_graphs([toy_model(updates=1)]) == 0


def test_new_rows_replace_those_of_the_same_place():
    other = TOY._replace(device="Abacus")
    newer = TOY._replace(column=0.2, least=7)
    assert devices.merged([TOY, other], [newer]) == (other, newer)
    half = TOY._replace(dtype="float16")
    assert devices.merged([TOY], [half]) == (TOY, half)


def test_the_table_that_is_shipped_can_be_read():
    for row in devices.read(devices.TABLE):
        assert row.device and 0 < row.least <= row.most
        assert row.column >= 0 and row.drafter > 0


@pytest.mark.parametrize("text", ["", "[1]", '[{"device": "cpu"}]'])
def test_what_is_no_table_is_named(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"x.json: no table as make gpu writes it"):
        devices.read(path)


def test_devices_by_name(monkeypatch):
    assert devices.device_name(torch.device("cpu")) == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.device_name(torch.device("cuda", 0)) == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    assert devices.device_name(torch.device("cuda", 1)) == "card 1"
