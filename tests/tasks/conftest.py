"""A toy corpus on disk, and models trained on it by fairseq-train; made once."""

import hashlib
import os
import pathlib
from types import SimpleNamespace

import families_toys
import pytest
from attempts import SENTENCES
from families_toys import train_family, write_corpus
from in_process import SHAPE, run_here
from toy_cache import EVERYTHING, cached_folder, key
from toy_translation import sentences, translate

SIZES = {"train": 8000, "valid": 60, "test": SENTENCES}
TRAINING = {
    "optimizer": "adam", "lr": 4e-3, "lr_scheduler": "fixed", "warmup_updates": 40,
    "batch_size": 32, "no_epoch_checkpoints": True, "seed": 1, "log_format": "simple",
}  # fmt: skip


@pytest.fixture(scope="session")
def data(tmp_path_factory, fairseq_command):
    """The binarised corpus of the language of ``toy_translation``, one shared dictionary."""
    folder = tmp_path_factory.mktemp("toy")
    for seed, (split, size) in enumerate(SIZES.items(), start=100):
        sources = sentences(size, seed)
        for side, lines in (("src", sources), ("tgt", map(translate, sources))):
            text = "".join(" ".join(f"w{word}" for word in line) + "\n" for line in lines)
            (folder / f"{split}.{side}").write_text(text, encoding="utf-8")
    fairseq_command(
        "preprocess", "-s", "src", "-t", "tgt", "--joined-dictionary", "--workers", 1,
        *[f"--{split}pref={folder / split}" for split in SIZES], "--destdir", folder / "bin",
    )  # fmt: skip
    return folder / "bin"


def content(value):
    """What a flag names: the digest of a file, whose path differs between runs, or the value."""
    if isinstance(value, (str, pathlib.Path)) and os.path.isfile(str(value)):
        return hashlib.sha256(pathlib.Path(value).read_bytes()).hexdigest()
    return value


@pytest.fixture(scope="session")
def train_here(data, tmp_path_factory):
    """Train with fairseq-train's command line; returns (folder of checkpoints, log).

    ``keep`` keeps them on disk for other processes and runs.
    """

    def train(keep=False, **flags):
        out, given = tmp_path_factory.mktemp("checkpoints"), dict(TRAINING, **flags)

        def make(folder):
            log = run_here("train", data, save_dir=folder, **given)[1]
            (folder / "train.log").write_text(log, encoding="utf-8")

        if keep:
            flags = sorted((name, content(value)) for name, value in given.items())
            made = key(("tasks", flags), (EVERYTHING,), [__file__])
            cached_folder(out, made, make)
        else:
            make(out)
        return out, (out / "train.log").read_text(encoding="utf-8")

    return train


@pytest.fixture(scope="session")
def toy(data, train_here):
    """Paths of the corpus (data), the verifier (v) and a drafter of blocks of 4 (d)."""
    verifier, _ = train_here(
        task="translation", arch="transformer", criterion="cross_entropy", max_update=250,
        disable_validation=True, keep=True, **SHAPE,
    )  # fmt: skip
    drafter, _ = train_here(
        task="translation", arch="spec_drafter_tiny", criterion="glancing_block_loss",
        block_size=4, num_cuts=4, max_update=200, disable_validation=True, dropout=0.0, keep=True,
    )  # fmt: skip
    paths = {"v": verifier / "checkpoint_last.pt", "d": drafter / "checkpoint_last.pt"}
    return SimpleNamespace(data=data, **{name: str(path) for name, path in paths.items()})


@pytest.fixture(scope="session")
def other(data, train_here):
    """Another verifier, trained with validation by this project's engine: (folder, log)."""
    return train_here(
        task="translation_specdec", arch="transformer", criterion="cross_entropy", max_epoch=2,
        max_update=200, validate_interval_updates=100, save_interval_updates=100,
        eval_bleu=True, eval_bleu_args='{"beam": 1, "max_len_b": 20, "strategy": "iad"}',
        keep=True, **SHAPE,
    )  # fmt: skip


@pytest.fixture(scope="session")
def languages(tmp_path_factory, fairseq_command):
    """The binarised corpus of three languages."""
    folder = tmp_path_factory.mktemp("languages")
    made = key("languages", files=[families_toys.__file__])
    cached_folder(folder, made, lambda to: write_corpus(to, fairseq_command))
    return folder / "bin"


@pytest.fixture(scope="session")
def family(languages, tmp_path_factory):
    """A toy of a family by its name, with changes of its training."""
    made = {}

    def toy_of(name, **changes):
        key = (name, *changes.items())
        if key not in made:
            made[key] = train_family(name, languages, tmp_path_factory.mktemp(name), **changes)
        return made[key]

    return toy_of
