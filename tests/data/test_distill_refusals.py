"""What the distilling command refuses: the flag or file is named, and nothing is destroyed."""

import json
import os
import pathlib
import shutil

import pytest
from distilling import KEEP, SIZE, Killed, kill_at, same_corpus

from fairseq_specdec.data import distill as command
from fairseq_specdec.data import merge
from fairseq_specdec.data.teacher import Teacher


def test_other_settings_are_refused_by_name(
    reversal_data, teacher, undisturbed, distill, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        kill_at(patch, os, "replace", "chunk-", 2)
        with pytest.raises(Killed):
            distill(reversal_data, out, teacher, *KEEP, "--beam", 2)
    with pytest.raises(ValueError, match=r"(?s)--beam: was 2, now is 5.*--overwrite"):
        distill(reversal_data, out, teacher, *KEEP)
    assert list(tmp_path.glob("out.parts/*/chunk-*.npz")), "the refusal destroyed work"
    distill(reversal_data, out, teacher, *KEEP, "--overwrite")
    assert same_corpus(out, undisturbed) and not (tmp_path / "out.parts").exists()
    with pytest.raises(ValueError, match="--max-length-ratio: was None, now is 2.0"):
        distill(reversal_data, out, teacher, *KEEP, "--max-length-ratio", 2)
    assert same_corpus(out, undisturbed)
    distill(reversal_data, out, teacher, *KEEP, "--beam", 1, "--overwrite")
    assert json.loads((out / merge.REPORT).read_text())["settings"]["--beam"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_changed_corpus_or_teacher_is_refused(
    reversal_data, teacher, undisturbed, distill, tmp_path
):
    shutil.copytree(str(undisturbed), str(tmp_path / "out"))
    shutil.copytree(str(reversal_data), str(tmp_path / "data"))
    with open(str(tmp_path / "data" / "train.src-tgt.src.bin"), "r+b") as stream:
        stream.write(b"\x05")
    with pytest.raises(ValueError, match=r"DATA/train\.src-tgt\.src\.bin: was"):
        distill(tmp_path / "data", tmp_path / "out", teacher, *KEEP)
    shutil.copyfile(str(teacher), str(tmp_path / "other.pt"))
    with open(str(tmp_path / "other.pt"), "ab") as stream:
        stream.write(b"\0")
    with pytest.raises(ValueError, match="--path: was"):
        distill(reversal_data, tmp_path / "out", tmp_path / "other.pt", *KEEP)


def test_a_finished_corpus_is_left_alone(reversal_data, teacher, undisturbed, distill, monkeypatch):
    monkeypatch.delattr(Teacher, "decode")
    stamp = (undisturbed / merge.REPORT).stat().st_mtime_ns
    assert distill(reversal_data, undisturbed, teacher, *KEEP)["counts"]["kept"] == SIZE
    assert (undisturbed / merge.REPORT).stat().st_mtime_ns == stamp


def test_missing_truncated_and_misfit_teachers(reversal_data, teacher, distill, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=r"--path: .*none\.pt does not exist"):
        distill(reversal_data, out, tmp_path / "none.pt")
    whole = pathlib.Path(str(teacher)).read_bytes()
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"--path: .*half\.pt: cannot be read as a checkpoint"):
        distill(reversal_data, out, f"{teacher}:{tmp_path / 'half.pt'}")
    data = tmp_path / "data"
    shutil.copytree(str(reversal_data), str(data))
    for language in ("src", "tgt"):
        with open(str(data / f"dict.{language}.txt"), "a") as stream:
            stream.write("newword 1\n")
    with pytest.raises(
        ValueError, match=r"--path: .*trained with a source dictionary of \d+ symbols"
    ):
        distill(data, tmp_path / "misfit", teacher)
    assert not out.exists()


def test_broken_corpora_and_destinations(reversal_data, teacher, distill, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=r"no split 'train2' .* has test\.\S+\.idx, .*idx\. Name"):
        distill(reversal_data, out, teacher, "--gen-subset", "train2")
    with pytest.raises(ValueError, match="^.*: holds no binarised text"):
        distill(tmp_path, out, teacher)
    with pytest.raises(ValueError, match="is no directory"):
        distill(tmp_path / "none", out, teacher)
    with pytest.raises(ValueError, match="--dest: is the corpus itself"):
        distill(reversal_data, reversal_data, teacher)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="--dest: .* was not made by this command"):
        distill(reversal_data, tmp_path / "file", teacher, "--overwrite")
    with pytest.raises(ValueError, match="--dest: cannot write"):
        distill(reversal_data, tmp_path / "file" / "out", teacher)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "flags, named",
    [
        (["--limit", 0], "--limit"),
        (["--fraction", 1.5], "--fraction"),
        (["--max-length-ratio", 0.5], "--max-length-ratio"),
        (["--chunk-size", 0], "--chunk-size"),
        (["--fp16", "--bf16"], "--fp16"),
        (["--num-shards", 2], "--shard"),
        (["--score-reference"], "--score-reference"),
        (["--upsample-primary", 2], "--upsample-primary"),
        (["--shard", "2/2"], "--shard"),
        (["--ray-workers", 2], "--ray-workers: .* give --ray too"),
        (["--ray", "."], "--ray .: is a folder; put it before --ray"),
        (["--task", "translation_specdec", "--trace-path", "x"], "--trace-path: distillation"),
    ],
)
def test_flags_that_cannot_be_honoured(flags, named, reversal_data, teacher, distill, tmp_path):
    # The parser refuses numbers, and fairseq the pair --fp16 --bf16, with a ValueError.
    with pytest.raises(ValueError, match=named):
        distill(reversal_data, tmp_path / "out", teacher, *flags)


def test_command_line_errors_are_one_line(reversal_data, tmp_path):
    with pytest.raises(SystemExit, match="^specdec-distill: error: --path: "):
        command.cli_main([str(reversal_data), "--dest", str(tmp_path / "out"), "--path", "none.pt"])
