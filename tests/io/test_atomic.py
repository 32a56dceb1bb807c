"""Disks that are full and folders that cannot be written: nothing half-written stays."""

import errno
import multiprocessing
import os
import re
import sys

import pytest

from fairseq_specdec.io.atomic import check_new_file, read_json, replacing, write_json, write_text

resource = pytest.importorskip("resource")

LIMIT = 1 << 16


def _write_too_much(folder, replace):
    """In another process: no file may grow past LIMIT, as on a disk that fills up."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    path = os.path.join(folder, "out")
    if replace:
        write_text(path, "old")
    try:
        write_text(path, "x" * 2 * LIMIT)
    except OSError as error:
        named = path in str(error)
        sys.exit(0 if error.errno in (errno.EFBIG, errno.ENOSPC) and named else 3)
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


def test_an_error_that_a_library_raises_after_it_is_that_of_the_disk(tmp_path):
    """torch.save raises a RuntimeError of its own when it closes what could not be written."""
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/out'"):
        with replacing(tmp_path / "out", "wb"):
            try:
                raise OSError(errno.ENOSPC, "No space left on device")
            finally:
                raise RuntimeError("unexpected pos 64 vs 0")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_or_no_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "gone" / "out.json", tmp_path / "file" / "out.json"):
        with pytest.raises(OSError, match=str(path)):
            write_json(str(path), {})
    write_json(tmp_path / "new" / "deeper" / "out.json", {}, make_folder=True)


def test_a_pipe_or_device_is_not_replaced(tmp_path):
    """It was: root who wrote to /dev/full had a file of that name after it."""
    os.mkfifo(str(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(OSError, match=f"no regular file: '{path}'"):
            write_text(path, "x")
        with pytest.raises(ValueError, match=f"--out {path}: is no regular file; name a file"):
            check_new_file(str(path), "--out")
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_until_it_is_whole_a_file_has_a_hidden_name_of_its_own(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    with replacing(path) as one, replacing(path) as other:
        one.write("one")
        other.write("other")
        one.flush()
        assert path.read_text() == "old"
        hidden = [each.name for each in tmp_path.iterdir() if each != path]
        assert len(hidden) == 2 and all(re.match(r"\.out\.tmp-\w{32}$", h) for h in hidden)
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]


def test_both_the_file_and_its_folder_reach_the_disk(tmp_path, monkeypatch):
    events, rename, fsync = [], os.replace, os.fsync

    def synced(handle):
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *paths: events.append("rename") or rename(*paths))
    write_text(tmp_path / "out", "x")
    assert events[0].startswith(".out.tmp-") and events[1:] == ["rename", tmp_path.name]


def test_text_and_json_are_utf8_with_line_feeds_whatever_the_locale(tmp_path):
    """JSON keeps the order of keys, and refuses what is no number."""
    path = tmp_path / "out"
    write_text(path, "ü\r\n\n")
    assert path.read_bytes() == "ü\r\n\n".encode()
    write_json(path, {"b": "ü", "a": [1]})
    assert path.read_text(encoding="utf-8") == '{\n "b": "ü",\n "a": [\n  1\n ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert read_json(path)["a"] == [1] and list(tmp_path.iterdir()) == [path]
    for text in ("[", "[1]"):
        path.write_text(text)
        with pytest.raises(ValueError, match="out: no JSON object"):
            read_json(path)
