"""A toy pair on disk: data, a trained verifier, another one, and a trained drafter."""

import shutil
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import indexed_dataset
from fairseq.models import ARCH_CONFIG_REGISTRY
from toy_blockwise import save_checkpoint
from toy_translation import dictionary, ids, sentences, toy_drafter, toy_model, translate

from fairseq_specdec.bench import cli

SIZE = 12


def save_drafter(path):
    """The toy drafter's checkpoint, which names the flags that ``toy_drafter`` was made with."""
    arch = "spec_drafter_tiny"
    args = Namespace(arch=arch, block_size=4, dropout=0.0, share_all_embeddings=True, _name=arch)
    ARCH_CONFIG_REGISTRY[arch](args)
    iterator = {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True}}
    history = [
        {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
    ]
    state = {"args": args, "model": toy_drafter().state_dict(), "optimizer_history": history}
    torch.save(dict(state, extra_state=iterator), str(path))


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Paths: data, v (verifier), w (another verifier) and d (drafter); 12 test sentences."""
    folder = tmp_path_factory.mktemp("pair")
    words = dictionary()
    sources = sentences(SIZE, seed=11)
    for side, rows in (("src", sources), ("tgt", [translate(s) for s in sources])):
        words.save(str(folder / f"dict.{side}.txt"))
        stem = str(folder / f"test.src-tgt.{side}")
        builder = indexed_dataset.make_builder(stem + ".bin", "mmap", vocab_size=len(words))
        for row in rows:
            builder.add_item(torch.tensor(ids(row)))
        builder.finalize(stem + ".idx")
        for end in ("bin", "idx"):
            shutil.copy(f"{stem}.{end}", folder / f"valid.src-tgt.{side}.{end}")
    save_checkpoint(folder / "v.pt", toy_model())
    save_checkpoint(folder / "w.pt", toy_model(seed=2, updates=120))
    save_drafter(folder / "d.pt")
    paths = {name: str(folder / f"{name}.pt") for name in "vwd"}
    return SimpleNamespace(data=str(folder), **paths)


@pytest.fixture
def bench(pair, monkeypatch):
    """Run the command in this process on the toy pair: (its results, what it printed)."""
    threads = torch.get_num_threads()

    def run(*words, path=pair.v):
        printed = []
        line = [pair.data, "--path", path, "-s", "src", "-t", "tgt", "--cpu", "--threads", "1"]
        result = cli.main([*line, *map(str, words)], printed.append)
        return result, "".join(printed)

    yield run
    torch.set_num_threads(threads)
