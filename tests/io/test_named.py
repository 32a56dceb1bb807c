"""Errors of the system that name no file are given its name."""

import errno
import os
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.io.named import naming
from fairseq_specdec.io.provenance import sha256
from fairseq_specdec.trace import TraceFile

resource = pytest.importorskip("resource")
# A regular file whose first byte cannot be read.
UNREADABLE = "/proc/self/mem"


def test_the_file_is_named_where_the_system_named_none():
    with pytest.raises(OSError, match="No space left on device: 'out'"), naming("out"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="gone'$"), naming("out"):
        open("gone")
    with pytest.raises(OSError, match="^own words$"), naming("out"):
        raise OSError("own words")


@pytest.mark.skipif(not os.path.isfile(UNREADABLE), reason="needs Linux's /proc")
@pytest.mark.parametrize("read", [
    load_checkpoint, checkpoint_utils.load_checkpoint_to_cpu, sha256,
])  # fmt: skip
def test_readers_name_the_file(read):
    with pytest.raises(OSError, match=f": '{UNREADABLE}'"):
        read(UNREADABLE)


def test_a_trace_names_its_file(tmp_path):
    path = tmp_path / "t"
    file = TraceFile(str(path))
    file.add(SimpleNamespace(to_json=lambda: "x" * 100))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match=f"File too large: '{path}'"):
            file.publish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file.discard()
    assert list(tmp_path.iterdir()) == []
