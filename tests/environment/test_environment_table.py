"""``specdec-env``: what an installation is, whole or broken; the flags of the task."""

import dataclasses
import re
import sys
import types

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig
from in_process import PLUGIN
from toy_pair import write_pair

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.engine.native import library
from fairseq_specdec.environment import cli
from fairseq_specdec.version import __version__


def shown(capsys, *words):
    """The table that the command prints, as a dictionary."""
    cli.cli_main(list(words))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["| | |", "|---|---|"]
    return dict(re.fullmatch(r"\| (.+?) \| (.+) \|", line).groups() for line in lines[2:])


def card():
    """Stands for torch with one GPU."""
    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        get_device_name=lambda index: "Tesla V100",
        get_device_capability=lambda index: (7, 0),
        get_device_properties=lambda index: types.SimpleNamespace(total_memory=16e9),
    )
    return types.SimpleNamespace(
        cuda=cuda, version=torch.version, __version__="9.9", device=torch.device
    )


def test_the_table_names_what_decides_a_run(capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("FAIRSEQ_SPECDEC_NATIVE", "")
    monkeypatch.setenv("FAIRSEQ_SPECDEC_X", "x|y\nz")
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
    assert "FAIRSEQ_SPECDEC_X=x/y z" in entries["environment"], "it stays in its cell"


def test_why_the_native_engine_is_not_used(capsys, monkeypatch, tmp_path):
    for value, said in (("off", "no: .* is off"), ("sse9", ".*=sse9: choose off")):
        monkeypatch.setenv("FAIRSEQ_SPECDEC_NATIVE", value)
        assert re.match(said, shown(capsys)["native engine"])
    monkeypatch.delenv("FAIRSEQ_SPECDEC_NATIVE")
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
    assert entries["fairseq"].endswith("fairseq/__init__.py, not installed")


@pytest.mark.parametrize("problem", [None, "does not run on it"])
def test_whether_torch_fits_the_card(problem, capsys, monkeypatch):
    monkeypatch.setattr("fairseq_specdec.engine.devices.why_not", lambda device: problem)
    monkeypatch.setitem(sys.modules, "torch", card())
    said = problem or "torch has kernels for it"
    assert shown(capsys)["GPU"] == f"Tesla V100, sm_70, 16 GB: {said}"


def test_how_a_model_decodes(capsys, tmp_path_factory):
    pair = str(write_pair(tmp_path_factory.mktemp("pair")))
    entries = shown(capsys, pair, "--device", "cpu", "--threads", "2")
    assert entries["strategy"].startswith(f"gad: {pair}/drafter.pt drafts")
    assert entries["threads"] == "2" and entries["twin"].startswith("none: ")
    loaded = library.load()
    if loaded is not None:
        assert (entries["backend"], entries["format"]) == (f"native, {loaded.variant}", "fp32")
        listed = shown(capsys, pair, "--strategy=greedy", "--vocabulary-window=4")["vocabulary"]
        assert listed == "a list of 5 tokens"
    words = ("--strategy", "greedy", "--backend", "torch", "--device", "cpu", "--threads", "1")
    entries = shown(capsys, pair, *words)
    backend = "torch on cpu: --backend torch was given"
    assert list(entries.values())[:3] == ["greedy: asked for", backend, "float32"]
    with pytest.raises(SystemExit, match="MODEL: no such file: nothing"):
        cli.cli_main(["nothing"])


def flags_in(text):
    return {line.split()[0] for line in text.splitlines() if line.startswith("  --")}


def test_all_flags_of_the_task_are_listed():
    own = {field.name for field in dataclasses.fields(TranslationSpecDecConfig)}
    own -= set(TranslationConfig.__dataclass_fields__)
    assert flags_in(cli.listed()) == {"--" + name.replace("_", "-") for name in own}


def test_the_command_prints_them(capsys):
    cli.cli_main(["--flags", "iad"])
    assert flags_in(capsys.readouterr().out) == flags_in(cli.listed("iad"))
    with pytest.raises(SystemExit, match="^specdec-env: error: --flags gadd: unknown"):
        cli.cli_main(["--flags", "gadd"])
    cli.cli_main(["--user-dir"])
    assert capsys.readouterr().out == f"{PLUGIN}\n"
