"""Freed memory stays with the process while it decodes on the CPU."""

import os
import subprocess
import sys

import pytest

from fairseq_specdec.engine.eager import allocator

FAULTS = """
import resource, runpy, sys, torch
if sys.argv[1] == "keep":  # the module alone: importing the package takes seconds
    assert runpy.run_path(sys.argv[2])["keep_freed_memory"]()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
# Each block is larger than all before: by default each comes from the system, and goes back.
for megabytes in range(5, 31):
    torch.empty(megabytes << 18).fill_(1.0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how):
    env = {name: value for name, value in os.environ.items() if name not in allocator.OURS_NOT}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how, allocator.__file__],
        env=dict(env, OMP_NUM_THREADS="1"), check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    return int(done.stdout.split()[-1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_pages_are_not_fetched_again():
    plain, kept = faults("plain"), faults("keep")
    assert 0 < kept < plain / 3  # the largest block's pages once, not every block's


def test_what_the_user_set_is_left_alone(monkeypatch):
    for name in allocator.OURS_NOT:
        monkeypatch.setenv(name, "1")
        assert not allocator.keep_freed_memory()
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allocator.keep_freed_memory()
