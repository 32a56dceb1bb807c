"""A corpus to distil and a teacher trained on it through the real fairseq-train."""

import logging
import os
import pathlib
import types

import pytest
from toy_cache import cached_folder, key

DECODING = ["--max-tokens", 100, "--max-len-b", 20]  # 100 tokens: many batches
KEEP = [*DECODING, "--on-length-limit", "keep", "--chunk-size", 16]
SIZE = 200
# Small enough to train in seconds, trained enough for outputs to differ from one another.
TINY = [
    "--arch", "transformer", "--encoder-layers", 1, "--decoder-layers", 1,
    "--encoder-embed-dim", 32, "--decoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64,
    "--decoder-ffn-embed-dim", 64, "--encoder-attention-heads", 2,
    "--decoder-attention-heads", 2, "--share-all-embeddings", "--dropout", 0,
    "--optimizer", "adam", "--max-tokens", 400, "--cpu", "--num-workers", 0, "--no-progress-bar",
    "--criterion", "label_smoothed_cross_entropy", "--disable-validation", "--no-epoch-checkpoints",
    "--lr", 0.01,
]  # fmt: skip


@pytest.fixture(scope="session")
def toy():
    """Flags and sizes of the toy."""
    return types.SimpleNamespace(decoding=DECODING, keep=KEEP, size=SIZE, training=TINY)


@pytest.fixture(scope="session")
def teacher(reversal_data, tmp_path_factory, fairseq_command) -> pathlib.Path:
    """A checkpoint that half knows how to reverse."""
    flags = ("--max-update", 200, *TINY)

    def train(folder):
        fairseq_command("train", reversal_data, "--save-dir", folder, *flags)

    folder = tmp_path_factory.mktemp("teacher")
    files = (__file__, pathlib.Path(__file__).parents[1] / "conftest.py")  # which has the corpus
    cached_folder(folder, key(("teacher", flags), files=files), train)
    return folder / "checkpoint_last.pt"


def run(data, dest, path, *flags):
    """Run the command in this process; its report, or None while other shards are at work."""
    from fairseq import options

    from fairseq_specdec.data import distill as command

    words = [data, "--path", path, "--dest", dest, "--num-workers", 0, *flags]
    words = [str(word) for word in words]
    return command.main(options.parse_args_and_arch(command.get_parser(), input_args=words), words)


@pytest.fixture(scope="session")
def undisturbed(reversal_data, teacher, tmp_path_factory):
    """The corpus distilled in one go."""
    dest = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run(reversal_data, dest, teacher, *KEEP)["counts"]["kept"] == SIZE
    return dest


@pytest.fixture
def distill(monkeypatch):
    """Run the command in this process, outside torchrun and Slurm."""
    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE") or name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    return run


@pytest.fixture(scope="session")
def read_corpus():
    """Token ids of both sides of a split."""
    from fairseq.data import indexed_dataset

    def read(folder, split="train", pair="src-tgt"):
        sides = []
        for language in pair.split("-"):
            data = indexed_dataset.make_dataset(f"{folder}/{split}.{pair}.{language}", "mmap")
            sides.append([data[i].tolist() for i in range(len(data))])
        return types.SimpleNamespace(source=sides[0], target=sides[1])

    return read


@pytest.fixture(scope="session")
def same_corpus():
    """Whether every file but the report and the drops' list is the same, byte for byte."""

    def same(one, other):
        files = [
            {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}
            for folder in (one, other)
        ]
        return files[0] == files[1]

    return same


class Killed(BaseException):
    """No handler of the command may catch it, as none can catch SIGKILL."""


@pytest.fixture
def killed_at(monkeypatch):
    """Die instead of the ``times``-th call whose first argument matches."""

    def killed(module, name, matches, times, run):
        real, left = getattr(module, name), [times]

        def call(first, *rest, **named):
            left[0] -= matches in str(first)
            if left[0] == 0:
                raise Killed
            return real(first, *rest, **named)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(module, name, call)
            run()

    return killed
