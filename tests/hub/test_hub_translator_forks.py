"""A translator that a forked process inherits, as under gunicorn --preload."""

import subprocess
import sys

import pytest

# The parent decodes first, so that the child inherits its pools of threads, and holds a lock.
PARENT = """
import asyncio, os, signal, sys, torch
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.io.forks import Lock

folder, strategy, backend = sys.argv[1:]
one = SpeculativeTranslator.from_pretrained(
    folder, strategy=strategy, backend=backend, device="cpu", seed=1, threads=2
)
texts = ["Open the file.", "Click OK to close the dialog and to save all the files at once."]

def answers(**flags):
    whole = [result.text for result in one.translate(texts, **flags)]
    waited = [result.text for result in asyncio.run(one.translate_async(texts, **flags))]
    completed = dict(one.translate_as_completed(texts, **flags))
    streamed = ["".join(one.translate_stream(text)) for text in texts]
    return [whole, waited, [completed[i].text for i in range(2)], streamed]

expected, lock = answers(max_len_b=99), Lock()
with lock:
    child = os.fork()
    if child:
        os._exit(os.waitpid(child, 0)[1] != 0)
    signal.alarm(60)  # ends a child that hangs
    with lock:
        assert answers(max_len_b=98) == expected and torch.get_num_threads() == 1
    os._exit(0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize(
    "strategy, backend", [("greedy", "auto"), ("gad", "auto"), ("gad", "torch")]
)
def test_a_child_decodes_as_its_parent(demo, strategy, backend):
    command = [sys.executable, "-c", PARENT, str(demo), strategy, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
