"""The scripts, importable and runnable as a user runs their steps."""

import functools
import os
import random
import shlex
import subprocess
import sys

import pytest
import runner
from recipe_parts import NAMES, NOUNS, REPO, VERBS


@pytest.fixture
def run_recipe(tmp_path, warm_python):
    """Run a recipe, or one step, in a work folder of its own; the finished process."""
    beside = os.path.dirname(sys.executable)  # programs that are not in ``warm_python``

    def run(recipe, step=None, check=True, **settings):
        environment = dict(
            os.environ,
            WORK=str(tmp_path / "work"),
            PYTHON=str(warm_python.python),
            PATH=os.pathsep.join([beside, os.environ["PATH"]]),
            THREADS="1",
            OMP_NUM_THREADS="1",
            CUDA_VISIBLE_DEVICES="",
        )
        environment.update({name: str(value) for name, value in settings.items()})
        done = subprocess.run(
            [str(REPO / "scripts" / "run"), recipe, *([step] if step else [])],
            cwd=str(tmp_path),
            env=environment,
            capture_output=True,
            text=True,
        )
        assert not check or done.returncode == 0, done.stderr[-4000:]
        return done

    return run


@pytest.fixture
def run_step(run_recipe):
    """Run a step of scripts/demo; the finished process."""
    return functools.partial(run_recipe, "demo")


@pytest.fixture
def own_text(tmp_path):
    """Settings of scripts/demo that name an English and a German file of 300 sentences."""
    rng = random.Random(1)
    english, german = [], []
    for _ in range(300):
        noun, verb, other = rng.choice(NOUNS), rng.choice(VERBS), rng.choice(NOUNS)
        name, friend = rng.sample(NAMES, 2)
        english.append(f"{name} {verb[0]} the {noun[0]}, and {friend} sees the {other[0]} of it.")
        german.append(f"{name} {verb[1]} die {noun[1]}, und {friend} sieht die {other[1]} davon.")
    for suffix, lines in (("en", english), ("de", german)):
        (tmp_path / f"own.{suffix}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "EN_FILE": tmp_path / "own.en",
        "DE_FILE": tmp_path / "own.de",
        "HELDOUT": 5,
        "MERGES": 60,
    }


TINY = (
    "--share-all-embeddings --encoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 "
    "--encoder-attention-heads 2 --decoder-layers {} --decoder-embed-dim 16 "
    "--decoder-ffn-embed-dim 16 --decoder-attention-heads 2"
)


@pytest.fixture(scope="session")
def tiny_pair(reversal_data, fairseq_command, tmp_path_factory):
    """Settings of a recipe that builds on a verifier: a tiny one, its corpus, few updates."""
    folder = tmp_path_factory.mktemp("verifier")
    fairseq_command(
        "train", reversal_data, "--cpu", "--arch", "transformer", *TINY.format(2).split(),
        "--optimizer", "adam", "--lr", 2e-3, "--max-update", 30, "--batch-size", 32,
        "--disable-validation", "--no-epoch-checkpoints", "--save-dir", folder,
    )  # fmt: skip
    return {
        "PROFILE": "smoke",
        "BIN": reversal_data,
        "DISTILLED": reversal_data,
        "VERIFIER": folder / "checkpoint_last.pt",
        "SRC": "src",
        "TGT": "tgt",
        "VERIFIER_FLAGS": TINY.format(2),
        "SMALL_FLAGS": TINY.format(1),
        "SMALL_UPDATES": 4,
        "ALIGN_UPDATES": 2,
        "EXIT_UPDATES": 2,
        "HEAD_UPDATES": 2,
        "DISTILL_FLAGS": "--on-length-limit keep",  # so little training teaches no </s>
        "LENGTH_FLAGS": "--max-len-b 12",
    }


@pytest.fixture
def printed(tmp_path, capsys, monkeypatch):
    """The words of each command of a recipe's steps, the work folder as $WORK; nothing is run."""
    for name, value in {"WORK": tmp_path / "work", "DEVICE": "cpu", "STEPS": ""}.items():
        monkeypatch.setenv(name, str(value))

    def run(*words, **settings):
        given = [f"{name}={value}" for name, value in settings.items()]
        assert runner.main([*words, "--dry-run", *given]) == 0
        text = capsys.readouterr().out.replace(str(tmp_path / "work"), "$WORK")
        return [shlex.split(line) for line in text.splitlines()]

    return run
