"""The commands in the report of specdec-accelerate, run as they are copied."""

import html
import re
import shlex
import subprocess

from fairseq_specdec.serve import cli


def printed(report):
    """The texts to copy, in order."""
    page = report.read_text(encoding="utf-8")
    return [html.unescape(text) for text in re.findall("<pre>(.*?)</pre>", page, re.S)]


def run_printed(report, python):
    """Run them in the current folder; their first words."""
    for text in printed(report):
        program, *words = shlex.split(text)
        if program == "specdec-serve":
            server = cli.start([*words, "--port", "0"])
            server.pairs.close()
            server.socket.close()
            continue
        start = [python.programs / program]
        if program == "fairseq-generate":
            start = [python.python, "-m", "fairseq_cli.generate"]
        given = {"input": "w1 w2 w3\n", "capture_output": True, "text": True}
        done = subprocess.run([*map(str, start), *words], **given)
        assert done.returncode == 0 and done.stdout.strip(), done.stderr
    return [text.split()[0] for text in printed(report)]
