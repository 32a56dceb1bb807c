"""README's two commands: what they say, and what the gate runs."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ("scripts/quickstart.sh", "scripts/test.sh")


def run(command, **settings):
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "universal_newlines": True}
    return subprocess.run(["bash", *command], cwd=str(ROOT), env=environment, timeout=60, **pipe)


@pytest.mark.parametrize("script", COMMANDS)
def test_help_makes_no_environment(script, tmp_path):
    done = run([script, "--help"], VENV=tmp_path / "venv")
    assert done.returncode == 0 and done.stdout.startswith(f"Usage: bash {script}")
    assert "set -e" not in done.stdout and not (tmp_path / "venv").exists()


@pytest.mark.parametrize("script", COMMANDS)
def test_a_python_that_is_not_there_is_named(script, tmp_path):
    done = run([script], VENV=tmp_path / "venv", PYTHON="no-such-python")
    assert done.returncode == 1
    assert re.fullmatch(r"\[\w+\] error: PYTHON: no-such-python not found; .*\n", done.stderr)


PYTHON = """#!/bin/sh
case "$*" in
    *version_info*) echo 3.8 ;;
    *importlib.metadata*) echo torch==1.13.1 ;;
    *pip*) echo "$@" >> "$LOG" ;;
esac
"""


def test_installing_keeps_the_torch_that_is_there(tmp_path):
    python, log = tmp_path / "bin" / "python", tmp_path / "log"
    python.parent.mkdir()
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    source = f"program=x repo=repo venv={tmp_path}; source scripts/lib/environment.sh; "
    done = run(["-c", source + "install_newest '[dev]'"], LOG=log)
    assert done.returncode == 0, done.stderr
    installed = log.read_text(encoding="utf-8").splitlines()
    assert installed[-1].endswith("install --quiet torch==1.13.1 -e repo[dev]")


@pytest.mark.parametrize(
    "settings, compiles", [({"CXX": "/nonexistent"}, False), ({"CXX": "env -i"}, True)]
)
def test_a_compiler_is_looked_for_as_setup_does(settings, compiles):
    source = "program=x repo=. venv=x; source scripts/lib/environment.sh; has_compiler"
    assert (run(["-c", source], **settings).returncode == 0) is compiles


def test_both_stand_first_in_readme():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert {f"bash {script}" for script in COMMANDS} <= set(lines[:25])
    top = " ".join(lines[:25])
    assert re.search(r"\d+ seconds on 2 cores", top) and re.search(r"\d+ minutes on 2 cores", top)


def test_the_gate_runs_the_second_command_and_the_sanitizers():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "\nbash scripts/test.sh" in text and "make sanitize" in text
    assert not re.search("pip install|-m pytest|ruff|mypy", text)
