"""A translator that a forked process inherits, as under gunicorn --preload."""

import subprocess
import sys

import pytest

# The parent decodes first, so that the child inherits its pools of threads, and holds a lock.
PARENT = """
import asyncio, os, signal, sys, torch
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.io.forks import Lock

flags = {"strategy": "gad", "device": "cpu", "seed": 1, "threads": 2}
native, on_torch = (
    SpeculativeTranslator.from_pretrained(sys.argv[1], backend=backend, **flags)
    for backend in ("auto", "torch")
)
texts = ["Open the file.", "Click OK to close the dialog and to save all the files at once."]

def answers(one, **flags):
    whole = [result.text for result in one.translate(texts, **flags)]
    waited = [result.text for result in asyncio.run(one.translate_async(texts, **flags))]
    completed = dict(one.translate_as_completed(texts, **flags))
    streamed = ["".join(one.translate_stream(text)) for text in texts]
    return [whole, waited, [completed[i].text for i in range(2)], streamed]

for _ in range(9):  # a thread that ends in this moment would hold locks of MKL
    list(on_torch.translate_stream(texts[0]))
    child = os.fork()
    if not child:
        signal.alarm(20)
        on_torch.translate(texts[0])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

translators = native, on_torch
expected, lock = [answers(each, max_len_b=99) for each in translators], Lock()
with lock:
    child = os.fork()
    if child:
        os._exit(os.waitpid(child, 0)[1] != 0)
    signal.alarm(60)  # ends a child that hangs
    with lock:
        assert [answers(each, max_len_b=98) for each in translators] == expected
        assert torch.get_num_threads() == 1
    os._exit(0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_child_decodes_as_its_parent(demo):
    """Natively and by torch."""
    command = [sys.executable, "-c", PARENT, str(demo)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
