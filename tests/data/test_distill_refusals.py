"""What the distilling command refuses: the flag or file is named, and nothing is destroyed."""

import os
import shutil

import pytest
from distilled import KEEP, killed_at, same_corpus


def test_other_settings_are_refused_by_name(undisturbed, distill, tmp_path):
    killed_at(os, "replace", "chunk-", 2, lambda: distill(*KEEP, "--beam", 2))
    distill(*KEEP)
    assert same_corpus(tmp_path / "out", undisturbed)
    assert list(tmp_path.glob("out.parts/*/chunk-*.npz")), "the work of other settings is lost"
    with pytest.raises(ValueError, match=r"--beam: was 5, now is 2.*or delete it"):
        distill(*KEEP, "--beam", 2)
    with pytest.raises(ValueError, match="--on-length-limit: was keep, now is drop"):
        distill(*KEEP, "--on-length-limit", "drop")
    assert same_corpus(tmp_path / "out", undisturbed)


def test_a_changed_corpus_or_teacher_is_refused(
    reversal_data, teacher, undisturbed, distill, tmp_path
):
    shutil.copytree(str(undisturbed), str(tmp_path / "out"))
    shutil.copytree(str(reversal_data), str(tmp_path / "data"))
    with open(str(tmp_path / "data" / "train.src-tgt.src.bin"), "r+b") as stream:
        stream.write(b"\x05")
    with pytest.raises(ValueError, match=r"DATA/train\.src-tgt\.src\.bin: was"):
        distill(*KEEP, data=tmp_path / "data")
    (tmp_path / "other.pt").write_bytes(teacher.read_bytes() + b"\0")
    with pytest.raises(ValueError, match="--path: was"):
        distill(*KEEP, path=tmp_path / "other.pt")


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--limit", 0], "--limit"),
        (["--score-reference"], "--score-reference"),
        (["--shard", "2/2"], "--shard"),
        (["--ray-workers", 2], "--ray-workers: .* give --ray too"),
        (["--trace-path", "x"], "--trace-path: has no meaning"),
        (["--path", "none.pt"], r"--path: .*none\.pt"),
        (["--gen-subset", "train2"], r"no split 'train2' .* has test, train.*; name another"),
        (["--dest", "data"], "--dest: is the corpus itself"),
        (["--dest", "file"], "--dest: .* was not made by this command"),
        (["--dest", "file/out"], "Not a directory: .*file"),
        (["none"], "^none: no such folder"),
        (["."], "^.*: holds no binarised text"),
    ],
)
def test_what_cannot_be_honoured(flags, message, reversal_data, distill, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(reversal_data)
    (tmp_path / "file").write_text("mine")
    data = flags.pop(0) if not str(flags[0]).startswith("-") else "data"
    with pytest.raises((ValueError, OSError), match=message):
        distill(*flags, data=data, dest="out")
    assert (tmp_path / "file").read_text() == "mine" and not (tmp_path / "out").exists()
