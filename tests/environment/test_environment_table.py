"""specdec-env: what an installation is, whole or broken."""

import re
import sys
import types

import pytest
import torch

from fairseq_specdec.engine.native import library
from fairseq_specdec.environment import cli
from fairseq_specdec.version import __version__


def shown(capsys):
    """The table that the command prints, as a dictionary."""
    cli.cli_main([])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["| | |", "|---|---|"]
    return dict(re.fullmatch(r"\| (.+?) \| (.+) \|", line).groups() for line in lines[2:])


def card(archs, capability):
    """Stands for torch with one GPU."""
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_name=lambda index: "Tesla V100",
        get_device_capability=lambda index: capability,
        get_device_properties=lambda index: types.SimpleNamespace(total_memory=16e9),
        get_arch_list=lambda: archs,
    )
    return types.SimpleNamespace(cuda=cuda, version=torch.version, __version__="9.9")


def test_the_table_names_what_decides_a_run(capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("FAIRSEQ_SPECDEC_NATIVE", "")
    entries = shown(capsys)
    assert entries["fairseq_specdec"].startswith(f"{__version__}, ")
    assert "0.12" in entries["fairseq"] and entries["torch"].startswith(torch.__version__)
    assert "numpy " in entries["also installed"]
    loaded = library.load()
    assert entries["native engine"] == (
        f"yes: {loaded.variant}" if loaded else f"no: {library.why_not()}"
    )
    assert entries["threads"].startswith("native engine 1, torch ")
    assert "OMP_NUM_THREADS=1" in entries["environment"]


@pytest.mark.parametrize("value, said", [("off", "no: .* is off"), ("sse9", ".*=sse9: choose off")])
def test_why_the_native_engine_is_not_used(capsys, monkeypatch, value, said):
    monkeypatch.setenv("FAIRSEQ_SPECDEC_NATIVE", value)
    assert re.match(said, shown(capsys)["native engine"])


def test_without_a_native_engine_one_remedy_is_given(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.setattr(library, "loaded", {})
    entries = shown(capsys)
    assert entries["variants it runs"] == "none"
    assert "it was not built: install a C++17 compiler" in entries["native engine"]


def test_a_broken_installation_has_a_table(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(cli, "FAIRSEQS", ())
    entries = shown(capsys)
    assert "halted" in entries["torch"] and "halted" in entries["GPU"]
    assert entries["fairseq"] == "imported from a folder, not installed"


@pytest.mark.parametrize("archs, fits", [(["sm_70", "sm_80"], True), (["sm_80", "sm_90"], False)])
def test_whether_torch_fits_the_card(archs, fits, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", card(archs, (7, 0)))
    gpu = shown(capsys)["GPU"]
    assert gpu.startswith("Tesla V100, sm_70, 16 GB: ")
    assert ("torch has kernels for it" in gpu) == fits
    assert ("pip install torch==2.10.0" in gpu) != fits


def test_a_value_stays_in_its_cell(capsys, monkeypatch):
    monkeypatch.setenv("FAIRSEQ_SPECDEC_X", "x|y\nz")
    assert "FAIRSEQ_SPECDEC_X=x/y z" in shown(capsys)["environment"]
