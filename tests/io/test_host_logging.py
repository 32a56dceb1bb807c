"""Importing the package leaves the logging of the host program as it was, and prints nothing."""

import json
import os
import subprocess
import sys

from fairseq_specdec.compat.user_dir import PACKAGE

# Imports one module after another; writes the logging after each to the file that is named.
REPORT = """
import importlib, json, logging, sys
def state():
    root, fairseq = logging.getLogger(), logging.getLogger("fairseq")
    return [root.level, [type(handler).__name__ for handler in root.handlers], fairseq.level]
logging.basicConfig(stream=sys.stdout)
logging.getLogger("fairseq").setLevel("ERROR")
states = [state()]
for name in ("fairseq_specdec", "fairseq_specdec.hub"):
    importlib.import_module(name)
    states.append(state())
json.dump(states, open(sys.argv[1], "w"))
"""


def test_a_host_keeps_its_logging(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(PACKAGE), "LOGLEVEL": "INFO"}
    command = [sys.executable, "-c", REPORT, "states.json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    states = json.loads((tmp_path / "states.json").read_text())
    assert states == states[:1] * 3
