"""The distilling command on a trained toy: same output as fairseq-generate, in whatever pieces."""

import collections
import itertools
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from distilled import DECODING, KEEP, SIZE, TRAINING, killed_at, read_corpus, same_corpus
from fairseq.data import Dictionary
from in_process import PLUGIN, lines_of, run_here

from fairseq_specdec.data.teacher import Teacher
from fairseq_specdec.io.provenance import sha256

REPORT, DROPPED, LIST = "distill.json", "dropped.tsv", "vocabulary.src-tgt.txt"


def test_targets_equal_fairseq_generate_in_the_original_order(reversal_data, teacher, undisturbed):
    flags = dict(zip(("max_tokens", "max_len_b"), DECODING[1::2]), gen_subset="train")
    out, _ = run_here("generate", reversal_data, task="translation", path=teacher, **flags)
    dictionary = Dictionary.load(str(undisturbed / "dict.tgt.txt"))
    texts = {int(number): rest.split("\t")[1] for number, rest in lines_of("H", out).items()}
    expected = [
        dictionary.encode_line(texts[i], add_if_not_exist=False).tolist() for i in range(SIZE)
    ]
    assert len({tuple(row) for row in expected}) > SIZE // 4, "outputs are too alike"
    assert read_corpus(undisturbed).target == expected
    counts = collections.Counter(itertools.chain(*expected))
    listed = [counts.pop(dictionary.index(w)) for w in (undisturbed / LIST).read_text().split()]
    assert listed == sorted(listed, reverse=True) and listed[-1] >= max(counts.values(), default=0)


def test_what_is_published(reversal_data, undisturbed, teacher, tmp_path):
    """Other files are unchanged, the report says how it was made, and fairseq-train takes it."""
    names = {path.name for path in reversal_data.iterdir()} - {"preprocess.log"}
    assert {path.name for path in undisturbed.iterdir()} == names | {REPORT, DROPPED, LIST}
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
    run_here("train", undisturbed, save_dir=tmp_path, max_update=1, **TRAINING)
    assert (tmp_path / "checkpoint_last.pt").exists()


@pytest.mark.parametrize("drawn", [[], ["--sampling", "--sampling-topk", 3, "--beam", 1]])
def test_shards_make_the_same_corpus(drawn, undisturbed, distill, tmp_path):
    """Also by sampling, which another seed changes."""
    flags, whole = [*KEEP, *drawn], undisturbed
    if drawn:
        whole = tmp_path / "whole"
        distill(*flags, dest=whole)
        distill(*flags, "--seed", 7, dest=tmp_path / "other")
        assert not same_corpus(whole, tmp_path / "other")
    assert distill(*flags, "--shard", "1/2") is None and not (tmp_path / "out").exists()
    assert distill(*flags, "--shard", "0/2")["counts"]["kept"] == SIZE
    assert same_corpus(tmp_path / "out", whole)


def test_torchrun_in_earnest(reversal_data, teacher, undisturbed, tmp_path, warm_python):
    words = [reversal_data, "--path", teacher, "--dest", tmp_path / "out", *KEEP]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.path.dirname(PLUGIN))
    environment["PYTHON_EXEC"] = python = str(warm_python.python)
    done = subprocess.run(
        [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
         "-m", "fairseq_specdec.data.distill", "--user-dir", PLUGIN, *map(str, words)],
        cwd=str(tmp_path), env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert same_corpus(tmp_path / "out", undisturbed)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


@pytest.mark.parametrize(
    "module, name, matches, times",
    [(os, "replace", "chunk-", 4), (os, "rename", "merged-", 1), (shutil, "rmtree", ".parts", 1)],
)
def test_a_kill_loses_and_doubles_nothing(
    module, name, matches, times, undisturbed, distill, tmp_path, monkeypatch
):
    killed_at(module, name, matches, times, lambda: distill(*KEEP))
    decode, again = Teacher.decode, []
    monkeypatch.setattr(
        Teacher, "decode", lambda self, sample: again.extend(sample["id"]) or decode(self, sample)
    )
    assert distill(*KEEP)["counts"]["kept"] == SIZE
    assert same_corpus(tmp_path / "out", undisturbed)
    assert not (tmp_path / "out.parts").exists()
    saved = 16 * (times - 1)
    assert 0 < len(again) <= SIZE - saved if matches == "chunk-" else not again


def test_dropped_sentences_are_counted_and_listed(reversal_data, distill, tmp_path):
    report = distill("--max-tokens", 400, "--max-source-positions", 9, "--max-len-b", 5)
    counts, why = report["counts"], report["counts"]["reasons"]
    assert counts["corpus"] == counts["chosen"] == SIZE == counts["kept"] + counts["dropped"]
    assert counts["dropped"] == sum(why.values())
    before, after = read_corpus(reversal_data), read_corpus(tmp_path / "out")
    assert why["source_too_long"] == sum(len(source) > 9 for source in before.source) > 0
    assert why["length_limit"] > 0 and counts["kept"] > 0
    rows = (tmp_path / "out" / DROPPED).read_text().splitlines()[1:]
    listed = dict(row.split("\t") for row in rows)
    assert len(listed) == counts["dropped"]
    assert {name: list(listed.values()).count(name) for name in why} == why
    assert after.source == [before.source[i] for i in range(SIZE) if str(i) not in listed]
    assert all(len(target) <= 5 for target in after.target)


def test_files_named_for_the_other_direction(reversal_data, teacher, distill, tmp_path):
    """By an ensemble in half precision."""
    flags = [*KEEP, "--source-lang", "tgt", "--target-lang", "src", "--bf16"]
    assert distill(*flags, path=f"{teacher}:{teacher}")["counts"]["kept"] == SIZE
    before, after = read_corpus(reversal_data), read_corpus(tmp_path / "out")
    assert after.target == before.target and after.source != before.source


def test_numbered_splits_and_missing_targets(reversal_data, distill, tmp_path, undisturbed):
    data = pathlib.Path(shutil.copytree(str(reversal_data), str(tmp_path / "data")))
    for end in ("bin", "idx"):
        (data / f"test.src-tgt.src.{end}").rename(data / f"train1.src-tgt.src.{end}")
        for split in ("train", "test"):
            (data / f"{split}.src-tgt.tgt.{end}").unlink()
    distill(*KEEP, data=data)
    assert not list((tmp_path / "out").glob("train1.*"))
    expected = read_corpus(undisturbed).source + read_corpus(reversal_data, "test").source
    assert read_corpus(tmp_path / "out").source == expected
