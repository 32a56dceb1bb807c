"""The translation benchmarks: their tables agree with one another, the papers and the programs."""

import json
import os
import pathlib
import subprocess
import time

import average_checkpoints
import energy
import paper_table
import pytest
import recipe_config
from hypothesis import given
from hypothesis import strategies as st
from recipe import Recipe
from recipe_parts import REPO

BENCHMARKS = ("wmt14_ende", "wmt14_ende_blockwise", "wmt16_enro", "iwslt17_deen")


def config(name):
    return recipe_config.read(REPO / "configs" / f"{name}.yaml")


def test_enough_checkpoints_are_kept_to_average():
    names = {model.config for name in BENCHMARKS for model in Recipe(name, {}).models()}
    for name in names:
        settings = config(name)
        kept = settings["checkpoint"]["keep_interval_updates"]
        assert kept == 10  # as the papers average
        every = settings["checkpoint"]["save_interval_updates"]
        assert settings["optimization"]["max_update"] >= kept * every, name


@pytest.mark.parametrize(
    ("gpus", "each", "expected"),
    [(8, None, (4096, 4)), (1, None, (4096, 32)), (2, 2048, (2048, 32)), (64, None, (2048, 1)),
     (3, None, (4096, 11))],
)  # fmt: skip
def test_the_batch_stays_as_large_on_other_gpus(gpus, each, expected):
    here = recipe_config.rebatch(recipe_config.Batch(8, 4096, 4), gpus, each)
    assert (here.each, here.update_freq) == expected


@given(
    st.builds(recipe_config.Batch, st.integers(1, 64), st.integers(1, 9000), st.integers(1, 64)),
    st.integers(1, 512),
)
def test_any_batch_is_met_to_half_a_pass(paper, gpus):
    here = recipe_config.rebatch(paper, gpus)
    assert here.update_freq >= 1 and 1 <= here.each <= paper.each
    if gpus <= paper.total:
        assert abs(here.total - paper.total) <= gpus * max(here.each / 2, 1)


def test_sentences_are_counted_where_the_paper_counts_them():
    logged = []
    overrides = recipe_config.batch_overrides(config("bild_small"), 4, 4096, logged.append)
    assert "dataset.batch_size=4" in overrides and "optimization.update_freq=[1]" in overrides
    assert "4 GPUs x 4 sentences x update-freq 1 = 16" in logged[0]


@pytest.fixture
def dry(dry_run):
    """A dry run of a recipe whose corpora, teacher and verifiers seem to be there."""
    homes = ("bin", "en-de/distilled", "de-en/distilled")
    dry_run.add_corpora(*(f"wmt14_ende/{home}" for home in homes))
    dry_run.add("wmt14_ende/en-de/models/verifier/model.pt")
    return dry_run


def training(words):
    """torchrun's flags and the overrides of the training that a call describes."""
    assert words[0] == "torchrun" and words[4].endswith("hydra_train.py")
    return words[1:4], dict(word.split("=", 1) for word in words[5:] if "=" in word)


def test_training_runs_under_torchrun_with_the_batch_of_the_paper(dry):
    settings = {"MODELS": "spec_drafter", "GPUS": 2, "PRECISION": "fp32", "DEVICE": "gpu"}
    done = dry.run("wmt14_ende", "05_train_drafter", **settings)
    flags, overrides = training(dry.calls()[0])
    assert flags == ["--standalone", "--nproc_per_node", "2"]
    wanted = {
        "optimization.update_freq": "[16]", "dataset.max_tokens": "4096",
        "common.fp16": "false",  # as in the papers on a P100
        "task.data": "'$WORK/wmt14_ende/en-de/distilled'",
    }  # fmt: skip
    assert wanted.items() <= overrides.items()
    assert "2 GPUs x 4096 tokens x update-freq 16 = 131072" in done.stderr
    again = dry.run("wmt14_ende", "05_train_drafter", **settings)
    assert "done before" in again.stderr and dry.calls() == []
    model = (dry.work / "wmt14_ende/en-de/models/spec_drafter/model.pt").read_text()
    assert "--last 10" in model  # the stand-in notes its words


def test_the_papers_batch_is_not_claimed_where_another_is_asked_for(dry):
    settings = {"MODELS": "spec_drafter", "GPUS": 2, "PRECISION": "fp32", "DEVICE": "gpu"}
    given = "dataset.max_tokens=1800 optimization.update_freq=[1]"
    done = dry.run("wmt14_ende", "05_train_drafter", HYDRA_FLAGS=given, **settings)
    words = dry.calls()[0]
    assert words.index("dataset.max_tokens=1800") > words.index("dataset.max_tokens=4096")
    assert "update-freq" not in done.stderr


def test_several_nodes_train_one_model_and_the_first_averages_it(dry):
    nodes = {"NODES": 2, "GPUS": 4, "PRECISION": "fp16", "DEVICE": "gpu", "NODE_RANK": 1,
             "TORCHRUN_FLAGS": "--nnodes 2"}  # fmt: skip
    asked = {"MODELS": "kd_frozen_10", "DIRECTION": "en-de", "AWAIT": 0, "check": False}
    done = dry.run("wmt14_ende", "04_train", **asked, **nodes)
    assert done.returncode != 0 and "the first node has not made" in done.stderr
    (words,) = dry.calls()
    assert words[:5] == ["torchrun", "--nnodes", "2", "--nproc_per_node", "4"]
    overrides = dict(word.split("=", 1) for word in words if "=" in word)
    assert overrides["distributed_training.distributed_world_size"] == "8"
    assert "common.fp16" not in overrides  # as in the YAML
    assert overrides["model.init_from"] == "'$WORK/wmt14_ende/en-de/models/verifier/model.pt'"
    assert overrides["model.block_size"] == "10"
    assert not (dry.work / "wmt14_ende/en-de/models/kd_frozen_10/provenance.json").exists()


def test_a_corpus_that_cannot_be_had_is_named_with_what_else_to_do(run_recipe, tmp_path):
    sources = tmp_path / "sources.tsv"
    absent = (tmp_path / "absent.tgz").as_uri()
    sources.write_text(f"train\t{absent}\t-\tfree\ta.en\ta.de\n", encoding="utf-8")
    done = run_recipe("wmt14_ende", "01_prepare", check=False, SOURCES=sources)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert f"{absent} cannot be fetched" in done.stderr
    assert "or fetch the file by other means" in done.stderr
    assert "RAW or TOKENISED takes a copy of your own" in done.stderr


def test_big_little_decoder_has_the_papers_other_corpus():
    settings = Recipe("iwslt17_deen", {"CORPUS": "wmt14", "WORK": "w"}).settings
    rows, _ = paper_table.read(pathlib.Path(settings["PAPER"]))
    assert rows[0].table == "Kim et al. Table 1, WMT 2014" and rows[0].direction == "de-en"
    assert "31.38" in {row.figures["bleu"] for row in rows}


def test_a_table_of_nothing_is_refused(run_recipe):
    done = run_recipe("iwslt17_deen", "07_table", PROFILE="smoke", TABLE_SETS="bild", check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "nothing to measure for bild: train its models first (MODELS)" in done.stderr


SLURM = {
    "srun": """#!/usr/bin/env bash
[[ $1 == --kill-on-bad-exit=1 ]] || exit 1
shift
for SLURM_NODEID in 0 1; do
    export SLURM_NODEID
    "$@"
done
""",
    "scontrol": "#!/usr/bin/env bash\nprintf 'first\\nsecond\\n'\n",
}


@pytest.fixture
def slurm(dry, tmp_path, monkeypatch):
    """A dry run in which Slurm's commands are there: two nodes, one after the other."""
    for name, text in SLURM.items():
        path = tmp_path / "tools" / name
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:{os.environ['PATH']}")
    monkeypatch.setenv("WORK", str(dry.work))

    def run(script, *words, **settings):
        environment = dict(os.environ, REPO=str(REPO), PYTHON=str(tmp_path / "tools" / "python"),
                           CALLS=str(tmp_path / "calls"), THREADS="1", DEVICE="gpu", GPUS="4",
                           PRECISION="fp16", AWAIT="2")  # fmt: skip
        environment.update({name: str(value) for name, value in settings.items()})
        command = ["bash", str(REPO / "scripts" / "slurm" / script), *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return run


def test_slurm_trains_one_model_on_all_nodes(slurm, dry):
    job = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NUM_NODES": 2, "SLURM_JOB_ID": 7}
    done = slurm("train.sh", "wmt14_ende", "05_train_drafter", MODELS="spec_drafter", **job)
    assert done.returncode == 0, done.stderr
    (words,) = dry.calls()  # the second finds it done: here they run in turn
    assert words[:9] == ["torchrun", "--nnodes", "2", "--rdzv_id", "7", "--rdzv_backend", "c10d",
                         "--rdzv_endpoint", "first:29500"]  # fmt: skip
    assert words[9:11] == ["--nproc_per_node", "4"]
    assert "distributed_training.distributed_world_size=8" in words
    assert "8 GPUs x 4096 tokens x update-freq 4 = 131072" in done.stderr
    assert "[05_train_drafter] done before" in done.stderr


def test_slurm_finds_the_step_that_distils_by_its_recipes_name_for_it(slurm, dry):
    done = slurm("distill.sh", "gec_conll14", VERIFIER_MODEL="scratch")
    assert done.returncode != 0 and "[05_distill]" in done.stderr
    done = slurm("distill.sh", "blockwise")
    assert done.returncode != 0 and "blockwise has no step that distils" in done.stderr


def test_slurm_shares_distillation_over_an_array(slurm, dry):
    dry.add("wmt14_ende/en-de/models/teacher/model.pt")
    done = slurm("distill.sh", "wmt14_ende", SLURM_ARRAY_TASK_ID=1, SLURM_ARRAY_TASK_COUNT=2)
    assert done.returncode == 0, done.stderr
    (words,) = dry.calls()
    assert words[:6] == ["torchrun", "--standalone", "--nproc_per_node", "4", "-m",
                         "fairseq_specdec.data.distill"]  # fmt: skip
    assert "--shard" not in words  # which is the array's to say


@pytest.mark.parametrize("script", ["train.sh", "distill.sh"])
def test_slurm_names_a_recipe_that_is_not_there(slurm, script):
    done = slurm(script, "wmt15", *(["01_x"] if script == "train.sh" else []))
    assert done.returncode != 0 and "no recipe wmt15; there are bild, blockwise" in done.stderr
    done = slurm(script)
    assert done.returncode != 0 and "usage: sbatch" in done.stderr


def test_more_systems_are_measured_and_the_others_kept(dry):
    """A model that is trained later joins its set; sets without it are not measured again."""
    for name in ("teacher", "nar_drafter"):
        dry.add(f"wmt14_ende/en-de/models/{name}/model.pt")
    settings = {"TABLE_SETS": "teacher base", "SENTENCES": 7, "check": False}
    dry.run("wmt14_ende", "07_table", **settings)
    first = [words for words in dry.calls() if words[0] == "specdec-bench"]
    assert [words[words.index("--path") + 1].split("/")[-2] for words in first] == [
        "teacher", "verifier",
    ]  # fmt: skip
    assert sum(word.startswith("specdec k=") for word in first[1]) == 0
    dry.add("wmt14_ende/en-de/models/spec_drafter/model.pt")
    done = dry.run("wmt14_ende", "07_table", **settings)
    (words,) = [words for words in dry.calls() if words[0] == "specdec-bench"]
    assert sum(word.startswith("specdec k=") for word in words) == 2
    assert "other systems or settings than before: measuring base again" in done.stderr


def test_smoke_from_raw_text_to_a_table(run_recipe, tmp_path):
    settings = {
        "PROFILE": "smoke", "STEPS": "01_prepare 02_train_teacher 07_table", "MODELS": "teacher",
        "TABLE_SETS": "teacher", "SENTENCES": 2, "SMOKE_UPDATES": 2, "AVERAGE": 2,
        "SMOKE_MERGES": 200, "LENGTH_FLAGS": "--max-len-b 5", "BENCH_FLAGS": "--repeats 1",
    }  # fmt: skip
    done = run_recipe("wmt14_ende", **settings)
    out = tmp_path / "work/wmt14_ende.smoke/en-de"
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| Teacher  ")]
    iterations, speed, bleu = row.split("|")[2:8:2]
    assert 1 <= float(iterations) <= 6 and float(speed) == 1 and float(bleu) >= 0
    assert "29.31" in row and "not run" in done.stdout
    assert done.stdout == (out / "tables.md").read_text(encoding="utf-8")
    assert "- PROFILE=smoke: " in done.stdout and "- teacher: device " in done.stdout
    assert json.loads((out / "tables.provenance.json").read_text(encoding="utf-8"))["outputs"]


@pytest.mark.slow
def test_smoke_of_a_whole_recipe_with_two_processes(run_recipe, tmp_path):
    settings = {
        "PROFILE": "smoke", "MODELS": "teacher verifier spec_drafter", "GPUS": 2, "SENTENCES": 3,
        "SMOKE_UPDATES": 10, "TABLE_SETS": "base",
    }  # fmt: skip
    done = run_recipe("wmt14_ende", **settings)
    out = tmp_path / "work/wmt14_ende.smoke/en-de"
    state = average_checkpoints.load(out / "models/spec_drafter/model.pt")
    assert state["cfg"]["distributed_training"]["distributed_world_size"] == 2
    scores = json.loads((out / "decoded/scores.json").read_text(encoding="utf-8"))
    assert "base.specdec_k=25" in scores or "base.specdec_k=10" in scores
    assert "Xia et al. Table 1, en-de" in done.stdout and "not run" in done.stdout
    again = run_recipe("wmt14_ende", **settings)
    assert again.stderr.count("done before") >= 6


@pytest.mark.parametrize("profile, updates, passes", [("full", 50000, 8), ("smoke", 12, 1)])
def test_a_models_own_hyperparameters_keep_their_batch_and_yield_to_smoke(
    printed, profile, updates, passes
):
    given = {"MODELS": "spec_drafter", "GPUS": 2, "PROFILE": profile}
    (words,) = printed("wmt16_enro", "05_train_drafter", **given)[:1]
    last = dict(word.split("=", 1) for word in words if "=" in word)
    assert last["optimization.lr"] == "[0.001]" and last["model.dropout"] == "0.2"
    assert last["optimization.max_update"] == str(updates)
    assert last["optimization.update_freq"] == f"[{passes}]"


def test_energy_is_watts_by_hours_by_the_papers_factor(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '80.5\\n99.5\\n'\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with energy.sampled("0") as figures:
        time.sleep(1)
    assert figures["watts"] == 90 and figures["hours"] > 1 / 3600
    assert figures["wh"] == pytest.approx(90 * figures["hours"] * 1.1)
