"""The distilling command on a trained toy: same output as fairseq-generate, in whatever pieces."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
import torch
from distilling import DECODING, KEEP, SIZE, Killed, kill_at, same_corpus
from terminals import terminal_on_stderr

import fairseq_specdec
from fairseq_specdec.data import merge
from fairseq_specdec.data.teacher import Teacher
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.io.provenance import sha256

# ---- the output --------------------------------------------------------------------------------


def test_targets_equal_fairseq_generate_in_the_original_order(
    reversal_data, teacher, undisturbed, fairseq_command, read_corpus
):
    from fairseq.data import Dictionary

    printed, _ = fairseq_command(
        "generate", reversal_data, "--user-dir", fairseq_specdec.__path__[0], "--path", teacher,
        "--gen-subset", "train", *DECODING, "--cpu",
    )  # fmt: skip
    dictionary = Dictionary.load(str(undisturbed / "dict.tgt.txt"))
    rows = {}
    for line in printed.splitlines():
        if line.startswith("H-"):
            number, _, text = line.split("\t")
            ids = dictionary.encode_line(text, add_if_not_exist=False, append_eos=True)
            rows[int(number[2:])] = ids.tolist()
    expected = [rows[index] for index in range(SIZE)]
    assert len({tuple(row) for row in expected}) > SIZE // 4, "outputs are too alike to prove much"
    assert read_corpus(undisturbed).target == expected


def test_source_other_splits_and_dictionaries_are_unchanged(reversal_data, undisturbed):
    names = {path.name for path in reversal_data.iterdir()} - {"preprocess.log"}
    changed = {f"train.src-tgt.tgt.{end}" for end in ("bin", "idx")}
    assert {path.name for path in undisturbed.iterdir()} == names | {merge.REPORT, merge.DROPPED}
    for name in names - changed:
        assert (undisturbed / name).read_bytes() == (reversal_data / name).read_bytes(), name
    for name in changed:
        assert (undisturbed / name).read_bytes() != (reversal_data / name).read_bytes(), name
    assert not os.path.exists(str(undisturbed) + ".parts")


def test_report_records_how_it_was_made(undisturbed, teacher):
    report = json.loads((undisturbed / merge.REPORT).read_text())
    assert report["settings"]["--beam"] == 5
    assert report["settings"]["--task"] == "translation_specdec"
    assert report["settings"]["--path"] == ["sha256:" + sha256(str(teacher))]
    assert report["decoding"]["sentences_per_second_and_process"] > 0
    (run,) = report["runs"]
    assert "--max-len-b 20" in run["command"] and run["versions"]["torch"]
    for name, value in report["files"].items():
        assert sha256(str(undisturbed / name)) == value


def test_fairseq_train_takes_it(undisturbed, tmp_path, fairseq_command, tiny_training):
    log, _ = fairseq_command(
        "train", undisturbed, "--save-dir", tmp_path, "--max-update", 1, "--lr", 0.01,
        *tiny_training,
    )  # fmt: skip
    assert "done training" in log and (tmp_path / "checkpoint_last.pt").exists()


@pytest.mark.parametrize(
    "flags, message",
    [
        ((), f"the {'native' if load() else 'torch'} backend"),
        (("--backend", "torch"), "the torch backend"),
        (("--task", "translation"), "fairseq's own decoding"),
    ],
)
def test_it_names_what_decodes(flags, message, reversal_data, teacher, distill, tmp_path, caplog):
    with caplog.at_level("INFO", logger="fairseq_specdec.data.teacher"):
        distill(reversal_data, tmp_path / "out", teacher, *KEEP, "--limit", 4, *flags)
    assert f"shard 0/1: 4 of 4 sentences to decode, with {message}" in caplog.messages


# ---- pieces ------------------------------------------------------------------------------------


def test_two_shards_make_the_same_corpus(reversal_data, teacher, undisturbed, distill, tmp_path):
    """Of torchrun and Slurm: test_distill_plan.py, and below."""

    def part(rank):
        return distill(reversal_data, tmp_path / "out", teacher, *KEEP, "--shard", f"{rank}/2")

    assert part(1) is None and not (tmp_path / "out").exists()
    assert part(0)["counts"]["kept"] == SIZE
    assert same_corpus(tmp_path / "out", undisturbed)


def test_sampling_does_not_depend_on_the_pieces(
    reversal_data, teacher, distill, tmp_path, read_corpus
):
    flags = [*KEEP, "--sampling", "--sampling-topk", 3, "--beam", 1]
    distill(reversal_data, tmp_path / "one", teacher, *flags)
    for rank in (1, 0):
        distill(reversal_data, tmp_path / "two", teacher, *flags, "--shard", f"{rank}/2")
    one = read_corpus(tmp_path / "one")
    assert one.target == read_corpus(tmp_path / "two").target
    distill(reversal_data, tmp_path / "other", teacher, *flags, "--seed", 7)
    assert one.target != read_corpus(tmp_path / "other").target


def test_torchrun_in_earnest(reversal_data, teacher, undisturbed, tmp_path, warm_python):
    words = [reversal_data, "--path", teacher, "--dest", tmp_path / "out", *KEEP]
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
    assert len(json.loads((tmp_path / "out" / merge.REPORT).read_text())["runs"]) == 2


@pytest.mark.parametrize(
    "flags",
    [[], pytest.param(["--beam", 1], marks=pytest.mark.slow), ["--beam", 3, "--lenpen", 2.0]],
    ids=str,
)
def test_either_engine_makes_the_same_corpus(
    flags, reversal_data, teacher, distill, tmp_path, undisturbed, read_corpus
):
    flags = [*KEEP, *flags]
    report = distill(reversal_data, tmp_path / "ours", teacher, *flags)
    assert report["settings"]["--strategy"] == "greedy"
    report = distill(reversal_data, tmp_path / "stock", teacher, *flags, "--task", "translation")
    assert report["settings"]["--task"] == "translation"
    assert same_corpus(tmp_path / "ours", tmp_path / "stock")
    default = read_corpus(tmp_path / "ours").target == read_corpus(undisturbed).target
    assert default == (flags == KEEP), "the flags change nothing"


@pytest.mark.parametrize(
    "module, name, matches, times",
    [
        pytest.param(os, "replace", "manifest.json", 1, marks=pytest.mark.slow),
        (os, "replace", "plan.npz", 1),
        pytest.param(os, "replace", "chunk-", 1, marks=pytest.mark.slow),
        (os, "replace", "chunk-", 4),
        (os, "rename", "merged-", 1),
        (shutil, "rmtree", ".parts", 1),
    ],
)
def test_a_kill_loses_and_doubles_nothing(
    module,
    name,
    matches,
    times,
    reversal_data,
    teacher,
    undisturbed,
    distill,
    tmp_path,
    monkeypatch,
):
    with monkeypatch.context() as patch:
        kill_at(patch, module, name, matches, times)
        with pytest.raises(Killed):
            distill(reversal_data, tmp_path / "out", teacher, *KEEP)
    decode, again = Teacher.decode, []
    monkeypatch.setattr(
        Teacher, "decode", lambda self, sample: again.extend(sample["id"]) or decode(self, sample)
    )
    assert distill(reversal_data, tmp_path / "out", teacher, *KEEP)["counts"]["kept"] == SIZE
    assert same_corpus(tmp_path / "out", undisturbed)
    assert not (tmp_path / "out.parts").exists()
    saved = {"chunk-": times - 1, "merged-": None, ".parts": None}.get(matches, 0)
    assert len(again) == 0 if saved is None else 0 < len(again) <= SIZE - 16 * saved


def test_merge_flag_publishes_what_others_finished(
    reversal_data, teacher, undisturbed, distill, tmp_path, monkeypatch
):
    with pytest.raises(ValueError, match="nothing was distilled"):
        distill(reversal_data, tmp_path / "out", teacher, *KEEP, "--merge")
    with monkeypatch.context() as patch:
        kill_at(patch, os, "rename", "merged-", 1)
        with pytest.raises(Killed):
            distill(reversal_data, tmp_path / "out", teacher, *KEEP)
    monkeypatch.delattr(Teacher, "decode")
    distill(reversal_data, tmp_path / "out", teacher, *KEEP, "--merge")
    assert same_corpus(tmp_path / "out", undisturbed)


# ---- what is dropped ---------------------------------------------------------------------------


def test_dropped_sentences_are_counted_and_listed(
    reversal_data, teacher, distill, tmp_path, read_corpus
):
    flags = ["--max-tokens", 400, "--max-source-positions", 9, "--max-len-b", 5]
    report = distill(reversal_data, tmp_path / "out", teacher, *flags, "--max-length-ratio", 1.3)
    counts, why = report["counts"], report["counts"]["reasons"]
    assert counts["corpus"] == counts["chosen"] == SIZE == counts["kept"] + counts["dropped"]
    assert counts["dropped"] == sum(why.values())
    before, after = read_corpus(reversal_data), read_corpus(tmp_path / "out")
    assert why["source_too_long"] == sum(len(source) > 9 for source in before.source) > 0
    assert why["length_limit"] > 0 and why["length_ratio"] > 0 and counts["kept"] > 0
    rows = (tmp_path / "out" / merge.DROPPED).read_text().splitlines()[1:]
    listed = dict(row.split("\t") for row in rows)
    assert len(listed) == counts["dropped"]
    assert {name: list(listed.values()).count(name) for name in why} == why
    kept = [i for i in range(SIZE) if str(i) not in listed]
    assert after.source == [before.source[i] for i in kept]
    assert all(len(target) <= 5 for target in after.target)
    assert read_corpus(tmp_path / "out", "valid").files == read_corpus(reversal_data, "valid").files


def test_limit_distils_a_subset(reversal_data, teacher, distill, tmp_path, read_corpus):
    report = distill(reversal_data, tmp_path / "out", teacher, *KEEP, "--limit", 30)
    assert report["counts"]["chosen"] == report["counts"]["kept"] == 30
    before, after = read_corpus(reversal_data), read_corpus(tmp_path / "out")
    places = iter(before.source)
    assert all(source in places for source in after.source), "not in the original order"
    share = distill(reversal_data, tmp_path / "share", teacher, *KEEP, "--fraction", 0.15)
    assert share["counts"]["chosen"] == 30
    assert read_corpus(tmp_path / "share").source == after.source


# ---- other corpora and other teachers ----------------------------------------------------------


def test_files_named_for_the_other_direction(
    reversal_data, teacher, distill, tmp_path, read_corpus
):
    flags = [*KEEP, "--source-lang", "tgt", "--target-lang", "src"]
    distill(reversal_data, tmp_path / "out", teacher, *flags)
    before, after = read_corpus(reversal_data), read_corpus(tmp_path / "out")
    assert after.target == before.target and after.source != before.source


def test_numbered_splits_and_missing_targets(
    reversal_data, teacher, distill, tmp_path, read_corpus, undisturbed
):
    data = tmp_path / "data"
    shutil.copytree(str(reversal_data), str(data))
    for end in ("bin", "idx"):
        (data / f"test.src-tgt.src.{end}").rename(data / f"train1.src-tgt.src.{end}")
        for split in ("train", "test"):
            (data / f"{split}.src-tgt.tgt.{end}").unlink()
    report = distill(data, tmp_path / "out", teacher, *KEEP)
    assert report["counts"]["kept"] == SIZE + 100
    assert not list((tmp_path / "out").glob("train1.*"))
    after, alone = read_corpus(tmp_path / "out"), read_corpus(undisturbed)
    assert after.source[:SIZE] == alone.source
    assert after.source[SIZE:] == read_corpus(reversal_data, "test").source


def multiplies_fp16():
    """Whether this torch does so on the CPU; 1.13 does not."""
    try:
        torch.nn.functional.linear(*torch.ones(2, 2, 2, dtype=torch.float16).unbind())
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    "flag", ["--bf16", pytest.param("--fp16", marks=pytest.mark.slow), "ensemble"]
)
def test_half_precision_and_ensembles(
    flag, reversal_data, teacher, distill, tmp_path, read_corpus, undisturbed
):
    if flag == "--fp16" and not multiplies_fp16():
        pytest.skip(f"torch {torch.__version__} has no fp16 products on the CPU")
    path, flags = (f"{teacher}:{teacher}", []) if flag == "ensemble" else (teacher, [flag])
    report = distill(reversal_data, tmp_path / "out", path, *KEEP, *flags)
    assert report["counts"]["kept"] == SIZE
    pairs = zip(read_corpus(tmp_path / "out").target, read_corpus(undisturbed).target)
    assert sum(one == other for one, other in pairs) > 0.7 * SIZE


def test_a_bar_on_a_terminal_and_none_in_a_pipe(reversal_data, teacher, distill, tmp_path, capfd):
    flags = [*KEEP, "--beam", 1, "--limit", 40]
    with terminal_on_stderr() as shown:
        distill(reversal_data, tmp_path / "shown", teacher, *flags)
    assert "40/40" in shown.text and "writing: 100%" in shown.text, shown.text
    assert capfd.readouterr().out == ""
    distill(reversal_data, tmp_path / "quiet", teacher, *flags)
    printed = capfd.readouterr()
    assert printed.out == "" and "\r" not in printed.err and "40/40" not in printed.err
