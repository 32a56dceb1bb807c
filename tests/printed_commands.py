"""``specdec-accelerate`` in this process: its steps, and the commands that its report prints."""

import html
import io
import re
import shlex
import sys
import tempfile
from types import SimpleNamespace
from unittest import mock

from in_process import module_here

from fairseq_specdec.accelerate import cli as accelerate
from fairseq_specdec.accelerate import measuring, steps
from fairseq_specdec.serve import cli as serve

PROGRAMS = {
    "fairseq-generate": "fairseq_cli.generate",
    "specdec-translate": "fairseq_specdec.hub.cli",
}


class Here:
    """For ``subprocess.Popen``: ``python -m MODULE WORD...`` has run in this process."""

    def __init__(self, words, stdout, **_):
        self.status = module_here(words[2], words[3:], stdout)

    def wait(self, timeout=None):
        return self.status


def take_small_steps(monkeypatch, layers=1):
    """The command takes small steps, each in this process.

    Args:
        layers: the fewest that a verifier may have.
    """
    monkeypatch.setattr(steps, "subprocess", SimpleNamespace(Popen=Here, STDOUT=None))
    monkeypatch.setattr(steps, "FIRST_SLICE", 3)
    monkeypatch.setattr(accelerate, "LEAST_LAYERS", layers)
    monkeypatch.setattr(accelerate.signal, "signal", lambda *args: None)
    monkeypatch.setattr(measuring, "CORRECTS", float("inf"))  # whatever a clock says


def printed(report):
    """The texts to copy, in order."""
    page = report.read_text(encoding="utf-8")
    return [html.unescape(text) for text in re.findall("<pre>(.*?)</pre>", page, re.S)]


def run_printed(report):
    """Run them in the current folder; their first words."""
    for text in printed(report):
        program, *words = shlex.split(text)
        if program == "specdec-serve":
            server = serve.start([*words, "--port", "0"])
            server.pairs.close()
            server.socket.close()
            continue
        output = io.StringIO()
        with tempfile.TemporaryFile("w+") as text, mock.patch.object(sys, "stdin", text):
            text.write("w1 w2 w3\n")
            text.seek(0)
            status = module_here(PROGRAMS[program], words, output)
        assert status == 0 and output.getvalue().strip(), output.getvalue()
    return [text.split()[0] for text in printed(report)]
