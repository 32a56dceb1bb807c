"""A corpus to distil and a teacher trained on it through the real fairseq-train."""

import logging
import os
import pathlib
import types

import pytest
from distilling import KEEP, SIZE
from toy_cache import cached_folder, key

# Small enough to train in seconds, trained enough for outputs to differ from one another.
TINY = [
    "--arch", "transformer", "--encoder-layers", 1, "--decoder-layers", 1,
    "--encoder-embed-dim", 32, "--decoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64,
    "--decoder-ffn-embed-dim", 64, "--encoder-attention-heads", 2,
    "--decoder-attention-heads", 2, "--share-all-embeddings", "--dropout", 0,
    "--optimizer", "adam", "--max-tokens", 400, "--cpu", "--num-workers", 0, "--no-progress-bar",
    "--criterion", "label_smoothed_cross_entropy", "--disable-validation", "--no-epoch-checkpoints",
]  # fmt: skip


@pytest.fixture(scope="session")
def tiny_training():
    """fairseq-train flags of a tiny transformer."""
    return TINY


@pytest.fixture(scope="session")
def teacher(reversal_data, tmp_path_factory, fairseq_command) -> pathlib.Path:
    """A checkpoint that half knows how to reverse."""
    flags = ("--max-update", 200, "--lr", 0.01, *TINY)

    def train(folder):
        fairseq_command("train", reversal_data, "--save-dir", folder, *flags)

    folder = tmp_path_factory.mktemp("teacher")
    files = (__file__, pathlib.Path(__file__).parents[1] / "conftest.py")  # which has the corpus
    cached_folder(folder, key(("teacher", flags), files=files), train)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def undisturbed(reversal_data, teacher, tmp_path_factory):
    """The corpus distilled in one go."""
    from fairseq import options

    from fairseq_specdec.data import distill as command

    dest = tmp_path_factory.mktemp("undisturbed") / "out"
    words = [reversal_data, "--path", teacher, "--dest", dest, "--num-workers", 0, *KEEP]
    words = [str(word) for word in words]
    args = options.parse_args_and_arch(command.get_parser(), input_args=words)
    report = command.main(args, words)
    assert report["counts"]["kept"] == SIZE
    return dest


@pytest.fixture
def distill(monkeypatch):
    """Run the command in this process; its report, or None while other shards are at work."""
    from fairseq import options

    from fairseq_specdec.data import distill as command

    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE") or name.startswith("SLURM_"):
            monkeypatch.delenv(name)

    def run(data, dest, path, *flags):
        words = [str(data), "--path", str(path), "--dest", str(dest), "--num-workers", "0"]
        words += [str(flag) for flag in flags]
        args = options.parse_args_and_arch(command.get_parser(), input_args=words)
        return command.main(args, words)

    logging.getLogger("fairseq").setLevel(logging.WARNING)
    return run


@pytest.fixture(scope="session")
def read_corpus():
    """Token ids of both sides of a split, and the raw bytes of its files."""
    from fairseq.data import indexed_dataset

    def read(folder, split="train", pair="src-tgt"):
        folder = pathlib.Path(str(folder))
        sides = []
        for language in pair.split("-"):
            data = indexed_dataset.make_dataset(str(folder / f"{split}.{pair}.{language}"), "mmap")
            sides.append([data[i].tolist() for i in range(len(data))])
        names = sorted(folder.glob(f"{split}.*"))
        files = {path.name: path.read_bytes() for path in names}
        return types.SimpleNamespace(source=sides[0], target=sides[1], files=files)

    return read
