"""A corpus to distil and a teacher trained on it through the real fairseq-train."""

import logging
import os
import pathlib

import distilled
import pytest
from distilled import KEEP, SIZE, TRAINING, run
from in_process import run_here
from toy_cache import cached_folder, key


@pytest.fixture(scope="session")
def teacher(reversal_data, tmp_path_factory) -> pathlib.Path:
    """A checkpoint that half knows how to reverse."""
    flags = {"max_update": 200, **TRAINING}
    folder = tmp_path_factory.mktemp("teacher")
    root = pathlib.Path(__file__).parents[1] / "conftest.py"  # which has the corpus
    cached_folder(
        folder, key(("teacher", sorted(flags.items())), files=(distilled.__file__, root)),
        lambda to: run_here("train", reversal_data, save_dir=to, **flags),
    )  # fmt: skip
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def undisturbed(reversal_data, teacher, tmp_path_factory):
    """The corpus distilled in one go."""
    dest = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run(reversal_data, dest, teacher, *KEEP)["counts"]["kept"] == SIZE
    return dest


@pytest.fixture
def distill(monkeypatch, reversal_data, teacher, tmp_path):
    """Run the command in this process, outside torchrun and Slurm."""
    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE") or name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    logging.getLogger("fairseq").setLevel(logging.WARNING)

    def command(*flags, data=reversal_data, path=teacher, dest=tmp_path / "out"):
        return run(data, dest, path, *flags)

    return command
