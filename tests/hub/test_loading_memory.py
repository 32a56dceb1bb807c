"""Peak memory of loading a model that is only decoded: the packed weights, hardly more.

Run as a program (``FILE FORMAT``, the latter as ``--verifier-dtype``), this file prints how many
MiB the process grew at most while it loaded FILE and decoded with it, from the imports on. A small
model decodes first, so that what is there once is not counted.
"""

import os
import pathlib
import subprocess
import sys
from argparse import Namespace

import pytest
import torch

from fairseq_specdec.hub import SpeculativeTranslator

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "engine" / "native"))
from resident import random_model, resident  # noqa: E402
from toy_translation import both, dictionary  # noqa: E402

MOST = 1.3  # times the packed weights, beside the file
OTHER = 12  # MiB: dictionaries, the cache, tensors of Python
# Every weight is mapped by itself: gaps in the heap would add up to 16 MiB, each time others.
MAPPED = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
PAST = {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}


def make(folder, width, words):
    """A checkpoint in half precision and its dictionaries."""
    sides = both(embed_dim=width, ffn_embed_dim=4 * width, layers=2)
    args = Namespace(arch="transformer", task="translation", share_all_embeddings=True, **sides)
    args.source_lang, args.target_lang, args.data = "a", "b", str(folder)
    state = {
        "args": args, "model": random_model(width, dictionary(words), True).half().state_dict(),
        "optimizer_history": [PAST],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }  # fmt: skip
    folder.mkdir()
    torch.save(state, str(folder / "verifier.pt"))
    for side in "ab":
        dictionary(words).save(str(folder / f"dict.{side}.txt"))


def decoding(path, number_format):
    """A translator that has decoded something."""
    settings = {"strategy": "greedy", "backend": "native", "verifier_dtype": number_format}
    translator = SpeculativeTranslator.from_pretrained(
        path, bpe=None, tokenizer=None, max_len_b=8, device="cpu", **settings
    )
    translator.translate("w1 w2")
    return translator


def measured(path, number_format):
    kept = [decoding(path.parents[1] / "small" / "verifier.pt", number_format)]
    before = resident()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    kept.append(decoding(path, number_format))
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024 - before


@pytest.fixture(scope="module")
def folder(tmp_path_factory, with_library):
    made = tmp_path_factory.mktemp("peak")
    torch.manual_seed(1)
    make(made / "small", 64, 100)
    make(made / "large", 512, 16_000)
    return made


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "number_format, packed",
    [("fp32", 43.7), ("int8", 37.5)],  # benchmarks/design-log.md
)
def test_the_peak_is_the_packed_weights_and_the_file(folder, number_format, packed):
    """A second copy of the weights, in any format, would exceed it."""
    path = folder / "large" / "verifier.pt"
    command = [sys.executable, __file__, str(path), number_format]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=MAPPED)
    file = path.stat().st_size / 2**20
    assert packed < float(done.stdout) < MOST * packed + file + OTHER


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(str(measured(pathlib.Path(sys.argv[1]), sys.argv[2])))
