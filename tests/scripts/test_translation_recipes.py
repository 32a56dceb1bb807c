"""The translation benchmarks: their tables agree with one another, the papers and the programs."""

import os
import subprocess
import time

import energy
import pytest
import recipe_config
from recipe import Recipe
from recipe_parts import REPO

BENCHMARKS = ("wmt14_ende", "wmt14_ende_blockwise", "wmt16_enro", "iwslt17_deen")


def config(name):
    return recipe_config.read(REPO / "configs" / f"{name}.yaml")


@pytest.mark.parametrize(
    ("gpus", "each", "expected"),
    [(8, None, (4096, 4)), (1, None, (4096, 32)), (2, 2048, (2048, 32)), (64, None, (2048, 1)),
     (3, None, (4096, 11))],
)  # fmt: skip
def test_the_batch_stays_as_large_on_other_gpus(gpus, each, expected):
    here = recipe_config.rebatch(recipe_config.Batch(8, 4096, 4), gpus, each)
    assert (here.each, here.update_freq) == expected


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


def test_slurm_shares_distillation_over_an_array(slurm, dry):
    dry.add("wmt14_ende/en-de/models/teacher/model.pt")
    done = slurm("distill.sh", "wmt14_ende", SLURM_ARRAY_TASK_ID=1, SLURM_ARRAY_TASK_COUNT=2)
    assert done.returncode == 0, done.stderr
    (words,) = dry.calls()
    assert words[:6] == ["torchrun", "--standalone", "--nproc_per_node", "4", "-m",
                         "fairseq_specdec.data.distill"]  # fmt: skip
    assert "--shard" not in words  # which is the array's to say


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


def test_enough_checkpoints_are_kept_to_average():
    names = {model.config for name in BENCHMARKS for model in Recipe(name, {}).models()}
    for name in names:
        settings = config(name)
        kept = settings["checkpoint"]["keep_interval_updates"]
        assert kept == 10  # as the papers average
        every = settings["checkpoint"]["save_interval_updates"]
        assert settings["optimization"]["max_update"] >= kept * every, name
