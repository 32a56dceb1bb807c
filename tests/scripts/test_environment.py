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


PYTHON = """#!/bin/sh
case "$*" in
    *version_info*) echo "${VERSION:-3.11}" ;;
    *importlib.metadata*) echo torch==2.6.0 ;;
    *"import torch") exit "${VERSION:+1}" ;;
    *pip*) echo "$@" >> "$LOG" ;;
esac
"""


def installed(tmp_path, programs, **settings):
    """What pip is asked for in an environment with these programs."""
    (tmp_path / "bin").mkdir()
    for name, text in {"python": PYTHON, **programs}.items():
        (tmp_path / "bin" / name).write_text(text, encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    source = f"program=x repo=repo venv={tmp_path}; source scripts/lib/environment.sh; "
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = run(
        ["-c", source + "install_newest '[dev]'"], LOG=tmp_path / "log", PATH=path, **settings
    )
    assert done.returncode == 0, done.stderr
    return (tmp_path / "log").read_text(encoding="utf-8").splitlines()


def test_installing_keeps_the_torch_that_is_there(tmp_path):
    assert installed(tmp_path, {})[-1].endswith("install --quiet torch==2.6.0 -e repo[dev]")


@pytest.mark.parametrize(
    "answer, torch",
    [
        ("echo 7.0", "2.7.1"),
        ("echo 9.0; echo 6.1", "2.7.1"),
        ("echo 7.5; echo 12.0", "2.13.0"),
        ("echo NVIDIA-SMI has failed; exit 9", "2.13.0"),
    ],
)
def test_old_gpus_get_a_torch_that_has_kernels_for_them(tmp_path, answer, torch):
    tools = {"nvidia-smi": f"#!/bin/sh\n{answer}\n"}
    asked = installed(tmp_path, tools, VERSION="3.11")
    assert asked[1].endswith(f"install --quiet torch=={torch}")


@pytest.mark.parametrize(
    "settings, compiles", [({"CXX": "/nonexistent"}, False), ({"CXX": "env -i"}, True)]
)
def test_a_compiler_is_looked_for_as_setup_does(settings, compiles):
    source = "program=x repo=. venv=x; source scripts/lib/environment.sh; has_compiler"
    assert (run(["-c", source], **settings).returncode == 0) is compiles


@pytest.mark.parametrize("script", COMMANDS)
def test_a_python_that_is_not_there_is_named(script, tmp_path):
    done = run([script], VENV=tmp_path / "venv", PYTHON="no-such-python")
    assert done.returncode == 1
    assert re.fullmatch(r"\[\w+\] error: PYTHON: no-such-python not found; .*\n", done.stderr)
