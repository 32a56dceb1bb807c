"""Disks that are full and folders that cannot be written: nothing half-written stays."""

import errno
import multiprocessing
import os
import sys

import pytest

from fairseq_specdec.data.files import write_json, write_whole

resource = pytest.importorskip("resource")

LIMIT = 1 << 16


def _write_too_much(folder, replace):
    """In another process: no file may grow past LIMIT, as on a disk that fills up."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    path = os.path.join(folder, "out")
    if replace:
        write_whole(path, lambda stream: stream.write(b"old"))
    try:
        write_whole(path, lambda stream: stream.write(bytes(2 * LIMIT)))
    except OSError as error:
        sys.exit(0 if error.errno in (errno.EFBIG, errno.ENOSPC) else 3)
    sys.exit(4)


@pytest.mark.parametrize("replace", [True, False])
def test_a_full_disk_leaves_the_old_file_or_none(replace, tmp_path):
    process = multiprocessing.get_context("fork").Process(
        target=_write_too_much, args=(str(tmp_path), replace)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [path.name for path in tmp_path.iterdir()] == (["out"] if replace else [])
    if replace:
        assert (tmp_path / "out").read_bytes() == b"old"


def test_an_error_while_writing_leaves_nothing(tmp_path):
    def write(stream):
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_whole(str(tmp_path / "out"), write)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_or_no_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "gone" / "out.json", tmp_path / "file" / "out.json"):
        with pytest.raises(OSError, match=str(path)):
            write_json(str(path), {})


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="drops root's rights")
def test_a_read_only_folder_is_an_error_for_ordinary_users(tmp_path):
    tmp_path.chmod(0o555)
    process = multiprocessing.get_context("fork").Process(
        target=_write_as_nobody, args=(str(tmp_path),)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert list(tmp_path.iterdir()) == []


def _write_as_nobody(folder):
    os.chdir(folder)
    os.setgid(65534)
    os.setuid(65534)
    try:
        write_whole("out", lambda stream: stream.write(b"x"))
    except PermissionError:
        sys.exit(0)
    sys.exit(4)
