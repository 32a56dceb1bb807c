"""Peak memory of loading a model that is only decoded: the packed weights, hardly more.

Run as a program (``FILE FORMAT``, the latter as ``--verifier-dtype``), this file prints how many
MiB the process grew at most while it loaded FILE and decoded with it, from the imports on. A small
model decodes first, so that what is there once is not counted.
"""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

from fairseq_specdec.hub import SpeculativeTranslator

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from resident import resident  # noqa: E402
from toy_drafter import make_verifier, save_model  # noqa: E402
from toy_translation import both, make_task  # noqa: E402

MOST = 1.3  # times the packed weights, beside the file
OTHER = 12  # MiB: dictionaries, the cache, tensors of Python
# Every weight is mapped by itself: gaps in the heap would add up to 16 MiB, each time others.
MAPPED = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 17)}


def make(folder, width, words):
    """A checkpoint in half precision and its dictionaries."""
    task, shape = make_task(words), both(embed_dim=width, ffn_embed_dim=4 * width, layers=2)
    model, args = make_verifier(task, share_all_embeddings=True, **shape)
    vars(args).update(task="translation", source_lang="a", target_lang="b", data=str(folder))
    folder.mkdir()
    save_model(folder / "verifier.pt", args, model.half())
    for side in "ab":
        task.target_dictionary.save(str(folder / f"dict.{side}.txt"))


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
