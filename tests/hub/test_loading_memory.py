"""Peak memory of loading a model that is only decoded: the packed weights, hardly more."""

import os
import pathlib
import subprocess
import sys

import pytest

from fairseq_specdec.engine.native import library

SCRIPT = pathlib.Path(__file__).with_name("peak.py")
MOST = 1.3  # times the packed weights, beside the file
OTHER = 12  # MiB: dictionaries, the cache, tensors of Python
# Every weight is mapped by itself: gaps in the heap would add up to 16 MiB, each time others.
MAPPED = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 17)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if library.load() is None:
        pytest.skip(library.why_not())
    made = tmp_path_factory.mktemp("peak")
    subprocess.run([sys.executable, str(SCRIPT), "make", str(made)], check=True)
    return made


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "number_format, packed",
    [("fp32", 43.7), ("int8", 37.5)],  # benchmarks/native.md
)
def test_the_peak_is_the_packed_weights_and_the_file(folder, number_format, packed):
    """A second copy of the weights, in any format, would exceed it."""
    path = folder / "large" / "verifier.pt"
    command = [sys.executable, str(SCRIPT), str(path), number_format]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=MAPPED)
    file = path.stat().st_size / 2**20
    assert packed < float(done.stdout) < MOST * packed + file + OTHER
