"""A checkpoint written by fairseq-train, and the command that wrote it."""

import pathlib
from typing import NamedTuple

import pytest

import fairseq_specdec


class Trained(NamedTuple):
    """A checkpoint and the arguments of the fairseq-train that wrote it."""

    checkpoint: pathlib.Path
    arguments: tuple


@pytest.fixture(scope="session")
def trained(fairseq_command, reversal_data, tmp_path_factory) -> Trained:
    """One epoch of a tiny transformer with --eval-bleu, whose checkpoint holds numpy arrays."""
    arguments = (
        reversal_data, "--user-dir", fairseq_specdec.__path__[0], "--task", "translation",
        "--arch", "transformer", "--encoder-layers", 1, "--decoder-layers", 1,
        "--encoder-embed-dim", 16, "--decoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16,
        "--decoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2,
        "--decoder-attention-heads", 2, "--optimizer", "adam", "--lr", 0.01, "--cpu",
        "--batch-size", 50, "--log-format", "simple", "--no-epoch-checkpoints", "--num-workers", 0,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("trained")
    fairseq_command(
        "train", *arguments, "--save-dir", folder, "--max-epoch", 1,
        "--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_a": 1, "max_len_b": 5}',
    )  # fmt: skip
    return Trained(folder / "checkpoint_last.pt", arguments)
