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
        if program == "from":
            names = {}
            exec(text, names)
            assert names["translator"].translate("w1 w2 w3").text
        elif program == "specdec-serve":
            server = cli.start([*words, "--port", "0"])
            server.pairs.close()
            server.socket.close()
        else:
            start = {
                "fairseq-generate": [python.python, "-m", "fairseq_cli.generate"],
                "specdec-bench": [python.programs / program, "--limit", "4"],
            }[program]
            done = subprocess.run([*map(str, start), *words], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    return [text.split()[0] for text in printed(report)]
