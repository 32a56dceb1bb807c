"""fairseq's commands that are stopped by a signal: one line, whole lines of output, the status."""

import os
import re
import subprocess
import sys

import pytest
from in_process import PLUGIN
from toy_pair import SENTENCES, write_pair

# Runs fairseq-generate, and sends itself a signal when the first results have come.
STOPPED = """
import os, runpy, signal, sys, threading, time
def stop():
    while b"\\nP-" not in open("out", "rb").read():
        time.sleep(0.001)
    os.kill(os.getpid(), getattr(signal, os.environ["HOW"]))
threading.Thread(target=stop, daemon=True).start()
runpy.run_module("fairseq_cli.generate", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory, fairseq_command):
    """A verifier, binarised text, and a fairseq-generate that a signal stops."""
    home = tmp_path_factory.mktemp("stopped")
    write_pair(home)
    dicts = ("--srcdict", home / "dict.src.txt", "--tgtdict", home / "dict.tgt.txt")
    text = (f"--testpref={home / 'test.src-tgt'}", "--destdir", home / "toy", "--workers", 1)
    fairseq_command("preprocess", "-s", "src", "-t", "tgt", *text, *dicts)
    (home / "fairseq-generate").write_text(STOPPED, encoding="utf-8")
    return home


@pytest.mark.parametrize(
    "task, how, message, status",
    [("translation", "SIGINT", "Ctrl-C", 130), ("translation_specdec", "SIGTERM", "SIGTERM", 143)],
)
def test_a_signal_ends_fairseq_generate_orderly(toy, warm_python, task, how, message, status):
    words = ["toy", "--user-dir", PLUGIN, "--task", task, "--cpu", "--path", "verifier.pt"]
    words += ["--batch-size", "1", "--nbest", "5"]
    with open(toy / "out", "w+", encoding="utf-8") as out:
        done = subprocess.run(
            [str(warm_python.python), "fairseq-generate", *words], cwd=str(toy), stdout=out,
            stderr=subprocess.PIPE, env=dict(os.environ, HOW=how), text=True,
        )  # fmt: skip
        out.seek(0)
        text = out.read()
    assert done.returncode == status
    assert done.stderr.splitlines()[-1] == f"fairseq-generate: stopped ({message})"
    assert "Traceback" not in done.stderr and "DictConfig" not in done.stderr
    assert text.count("\nS-") < SENTENCES and "\nGenerate" not in text and text.endswith("\n")
    results = [line for line in text.splitlines() if "| INFO |" not in line]
    assert results[0].startswith("S-")
    for line in results:
        assert re.fullmatch(r"[STHDP]-\d+(\t[^\t]+)+", line), line


FINALIZED = """
import os, signal, sys, time, weakref
from fairseq_specdec.commands.in_fairseq import end_orderly_on_sigterm

class Thing: pass

def interrupted():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)

end_orderly_on_sigterm("fairseq-generate")
thing = Thing()
weakref.finalize(thing, interrupted)
del thing
print("went on", flush=True)
for _ in range(100):
    time.sleep(0.05)
print("to the end", flush=True)
"""


def test_a_signal_that_meets_a_finalizer_ends_the_command(tmp_path):
    """Python drops what a finalizer raises."""
    script = tmp_path / "finalized.py"
    script.write_text(FINALIZED, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (143, "went on\n")
    assert done.stderr.splitlines()[-1] == "fairseq-generate: stopped (SIGTERM)"
    assert "Traceback" not in done.stderr
