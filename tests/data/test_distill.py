"""The distilling command on a trained toy: same output as fairseq-generate, in whatever pieces."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import fairseq_specdec
from fairseq_specdec.data.teacher import Teacher
from fairseq_specdec.io.provenance import sha256

REPORT, DROPPED = "distill.json", "dropped.tsv"


def test_targets_equal_fairseq_generate_in_the_original_order(
    reversal_data, teacher, undisturbed, fairseq_command, read_corpus, toy
):
    from fairseq.data import Dictionary

    printed, _ = fairseq_command(
        "generate", reversal_data, "--user-dir", fairseq_specdec.__path__[0], "--path", teacher,
        "--gen-subset", "train", *toy.decoding, "--cpu",
    )  # fmt: skip
    dictionary = Dictionary.load(str(undisturbed / "dict.tgt.txt"))
    rows = {}
    for line in printed.splitlines():
        if line.startswith("H-"):
            number, _, text = line.split("\t")
            rows[int(number[2:])] = dictionary.encode_line(text, add_if_not_exist=False).tolist()
    expected = [rows[index] for index in range(toy.size)]
    assert len({tuple(row) for row in expected}) > toy.size // 4, "outputs are too alike"
    assert read_corpus(undisturbed).target == expected


def test_what_is_published(reversal_data, undisturbed, teacher, tmp_path, fairseq_command, toy):
    """Other files are unchanged, the report says how it was made, and fairseq-train takes it."""
    names = {path.name for path in reversal_data.iterdir()} - {"preprocess.log"}
    assert {path.name for path in undisturbed.iterdir()} == names | {REPORT, DROPPED}
    for name in names:
        same = (undisturbed / name).read_bytes() == (reversal_data / name).read_bytes()
        assert same != name.startswith("train.src-tgt.tgt."), name
    assert not os.path.exists(str(undisturbed) + ".parts")
    report = json.loads((undisturbed / REPORT).read_text())
    assert report["settings"]["--beam"] == 5
    assert report["settings"]["--task"] == "translation_specdec"
    assert report["settings"]["--path"] == ["sha256:" + sha256(str(teacher))]
    assert report["decoding"]["sentences_per_second_and_process"] > 0
    assert "--max-len-b 20" in report["command"] and report["versions"]["torch"]
    assert all(sha256(str(undisturbed / name)) == x for name, x in report["files"].items())
    flags = ("--save-dir", tmp_path, "--max-update", 1, *toy.training)
    fairseq_command("train", undisturbed, *flags)
    assert (tmp_path / "checkpoint_last.pt").exists()


# ---- pieces ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--sampling", "--sampling-topk", 3, "--beam", 1]])
def test_shards_make_the_same_corpus(
    flags, reversal_data, teacher, undisturbed, distill, tmp_path, same_corpus, toy
):
    """Also by sampling, which another seed changes."""
    flags, whole = [*toy.keep, *flags], undisturbed
    if len(flags) > len(toy.keep):
        whole = tmp_path / "whole"
        distill(reversal_data, whole, teacher, *flags)
        distill(reversal_data, tmp_path / "other", teacher, *flags, "--seed", 7)
        assert not same_corpus(whole, tmp_path / "other")
    out = (reversal_data, tmp_path / "out", teacher, *flags)
    assert distill(*out, "--shard", "1/2") is None and not (tmp_path / "out").exists()
    assert distill(*out, "--shard", "0/2")["counts"]["kept"] == toy.size
    assert same_corpus(tmp_path / "out", whole)


def test_torchrun_in_earnest(
    reversal_data, teacher, undisturbed, tmp_path, warm_python, same_corpus, toy
):
    words = [reversal_data, "--path", teacher, "--dest", tmp_path / "out", *toy.keep]
    package = pathlib.Path(fairseq_specdec.__path__[0])
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(package.parent))
    environment["PYTHON_EXEC"] = python = str(warm_python.python)
    done = subprocess.run(
        [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
         "-m", "fairseq_specdec.data.distill", "--user-dir", str(package), *map(str, words)],
        cwd=str(tmp_path), env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert same_corpus(tmp_path / "out", undisturbed)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


@pytest.mark.parametrize(
    "module, name, matches, times",
    [
        (os, "replace", "chunk-", 1),
        (os, "replace", "chunk-", 4),
        (os, "rename", "merged-", 1),
        (shutil, "rmtree", ".parts", 1),
    ],
)
def test_a_kill_loses_and_doubles_nothing(
    module, name, matches, times, reversal_data, teacher, undisturbed, distill, tmp_path,
    monkeypatch, killed_at, same_corpus, toy,
):  # fmt: skip
    flags = (reversal_data, tmp_path / "out", teacher, *toy.keep)
    killed_at(module, name, matches, times, lambda: distill(*flags))
    decode, again = Teacher.decode, []
    monkeypatch.setattr(
        Teacher, "decode", lambda self, sample: again.extend(sample["id"]) or decode(self, sample)
    )
    assert distill(*flags)["counts"]["kept"] == toy.size
    assert same_corpus(tmp_path / "out", undisturbed)
    assert not (tmp_path / "out.parts").exists()
    saved = 16 * (times - 1)
    assert 0 < len(again) <= toy.size - saved if matches == "chunk-" else not again


# ---- what is dropped ---------------------------------------------------------------------------


def test_dropped_sentences_are_counted_and_listed(
    reversal_data, teacher, distill, tmp_path, read_corpus, toy
):
    flags = ["--max-tokens", 400, "--max-source-positions", 9, "--max-len-b", 5]
    report = distill(reversal_data, tmp_path / "out", teacher, *flags)
    counts, why = report["counts"], report["counts"]["reasons"]
    assert counts["corpus"] == counts["chosen"] == toy.size == counts["kept"] + counts["dropped"]
    assert counts["dropped"] == sum(why.values())
    before, after = read_corpus(reversal_data), read_corpus(tmp_path / "out")
    assert why["source_too_long"] == sum(len(source) > 9 for source in before.source) > 0
    assert why["length_limit"] > 0 and counts["kept"] > 0
    rows = (tmp_path / "out" / DROPPED).read_text().splitlines()[1:]
    listed = dict(row.split("\t") for row in rows)
    assert len(listed) == counts["dropped"]
    assert {name: list(listed.values()).count(name) for name in why} == why
    assert after.source == [before.source[i] for i in range(toy.size) if str(i) not in listed]
    assert all(len(target) <= 5 for target in after.target)


# ---- other corpora and other teachers ----------------------------------------------------------


def test_files_named_for_the_other_direction(
    reversal_data, teacher, distill, tmp_path, read_corpus, toy
):
    """By an ensemble in half precision."""
    flags = [*toy.keep, "--source-lang", "tgt", "--target-lang", "src", "--bf16"]
    report = distill(reversal_data, tmp_path / "out", f"{teacher}:{teacher}", *flags)
    assert report["counts"]["kept"] == toy.size
    before, after = read_corpus(reversal_data), read_corpus(tmp_path / "out")
    assert after.target == before.target and after.source != before.source


def test_numbered_splits_and_missing_targets(
    reversal_data, teacher, distill, tmp_path, read_corpus, undisturbed, toy
):
    data = tmp_path / "data"
    shutil.copytree(str(reversal_data), str(data))
    for end in ("bin", "idx"):
        (data / f"test.src-tgt.src.{end}").rename(data / f"train1.src-tgt.src.{end}")
        for split in ("train", "test"):
            (data / f"{split}.src-tgt.tgt.{end}").unlink()
    distill(data, tmp_path / "out", teacher, *toy.keep)
    assert not list((tmp_path / "out").glob("train1.*"))
    expected = read_corpus(undisturbed).source + read_corpus(reversal_data, "test").source
    assert read_corpus(tmp_path / "out").source == expected
