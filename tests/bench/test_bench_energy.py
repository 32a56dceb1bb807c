"""Meters of energy, and what they say of a system."""

import sys
import types
from types import SimpleNamespace

import pytest
import torch

from fairseq_specdec.bench import energy


def zone(folder, name, joules, most=1000):
    folder.mkdir(exist_ok=True)
    (folder / "name").write_text(name + "\n")
    (folder / "energy_uj").write_text(f"{round(joules * 1e6)}\n")
    (folder / "max_energy_range_uj").write_text(f"{round(most * 1e6)}\n")


def test_packages_are_summed_and_counters_start_again(tmp_path):
    one, two = tmp_path / "intel-rapl:0", tmp_path / "intel-rapl:1"
    zone(one, "package-0", 990)
    zone(two, "package-1", 5)
    zone(tmp_path / "intel-rapl:0:0", "core", 7)
    zone(tmp_path / "intel-rapl:2", "psys", 7)
    meter = energy.of_cpu(str(tmp_path))
    assert meter.read() == 0 and "processor" in meter.what
    zone(one, "package-0", 12)  # past its range of 1000
    zone(two, "package-1", 6)
    assert meter.read() == pytest.approx(22 + 1)
    zone(tmp_path / "intel-rapl:0:0", "core", 99)
    assert meter.read() == pytest.approx(23)


def test_no_meter_is_none(tmp_path):
    assert energy.of_cpu(str(tmp_path)) is None
    zone(tmp_path / "intel-rapl:0", "package-0", 1)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert energy.of_cpu(str(tmp_path)) is None


class NVMLError(Exception):
    """What the real one raises."""


def test_the_gpu_of_torch_is_asked(monkeypatch):
    nvml = types.ModuleType("pynvml")
    nvml.NVMLError = NVMLError
    nvml.nvmlInit = lambda: None
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: {"GPU-abc": 7}[uuid]
    millijoules = iter([1000, 2500, 4000])
    nvml.nvmlDeviceGetTotalEnergyConsumption = lambda handle: next(millijoules)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid="abc")
    )
    assert energy.find(cuda=True).read() == 2.5

    def without(handle):
        raise NVMLError("not supported")

    nvml.nvmlDeviceGetTotalEnergyConsumption = without
    assert energy.find(cuda=True) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert energy.find(cuda=True) is None


def test_every_sentence_has_its_share(monkeypatch):
    monkeypatch.setattr(energy, "SHORTEST", 0.0)
    batches = [{"id": [0, 1]}, {"id": [2]}]
    spent = []

    class Counted:
        def __init__(self, name, joules):
            self.name, self.joules = name, joules

        def decode(self, sample, batch, seed):
            assert batch is None
            spent.append(self.joules * len(sample["id"]))

    meter = energy.Meter("x", lambda: sum(spent))
    systems = [Counted("a", 2.0), Counted("b", 3.0)]
    assert energy.a_sentence(systems, batches, meter, 1) == {"a": 2.0, "b": 3.0}
    spent.clear()
    monkeypatch.setattr(energy, "SHORTEST", 0.01)
    found = energy.a_sentence(systems, batches, meter, 1)
    assert found == pytest.approx({"a": 2.0, "b": 3.0}) and len(spent) > 4
