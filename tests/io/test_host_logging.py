"""Importing the package leaves the logging of the host program as it was, and prints nothing."""

import json
import os
import subprocess
import sys

import pytest

from fairseq_specdec.compat.user_dir import PACKAGE

# Imports one module after another; writes the logging after each to the file named last.
REPORT = """
import importlib, json, logging, sys
def state():
    root, fairseq = logging.getLogger(), logging.getLogger("fairseq")
    return [root.level, [type(handler).__name__ for handler in root.handlers], fairseq.level]
{prepare}
states = [state()]
for name in sys.argv[1:-1]:
    importlib.import_module(name)
    states.append(state())
json.dump(states, open(sys.argv[-1], "w"))
"""
USER_DIR = """
import types
from fairseq import utils
utils.import_user_module(types.SimpleNamespace(user_dir=PATH))
"""


def states_of(folder, *modules, prepare="", **more):
    """(logging before and after each import, stdout and stderr) of a fresh Python."""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(PACKAGE), "LOGLEVEL": "INFO", **more}
    words = [*modules, str(folder / "states.json")]
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(prepare=prepare), *words],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "states.json").read_text()), done.stdout + done.stderr


@pytest.mark.parametrize(
    "prepare",
    [
        "logging.lastResort = None",
        "logging.basicConfig(level=logging.INFO, stream=sys.stdout)",
        "logging.getLogger('fairseq').setLevel(logging.ERROR)",
    ],
)
def test_a_host_keeps_its_logging(tmp_path, prepare):
    states, log = states_of(tmp_path, "fairseq_specdec", "fairseq_specdec.hub", prepare=prepare)
    assert states == states[:1] * 3
    assert log == ""


@pytest.mark.parametrize(
    "command, levels",
    [("train", {40}), ("generate", {10, 20})],  # of generate by the release of fairseq
)
def test_commands_of_fairseq_log_as_without_the_plugin(tmp_path, command, levels):
    """fairseq-train sets logging up by LOGLEVEL; fairseq-generate comes after fairseq itself."""
    (tmp_path / "plugin.py").write_text(USER_DIR.replace("PATH", repr(PACKAGE)))
    states, _ = states_of(tmp_path, "fairseq_cli." + command, "plugin", LOGLEVEL="ERROR")
    assert states[1] == states[2] and states[1][1:] == [["StreamHandler"], 0]
    assert states[1][0] in levels
