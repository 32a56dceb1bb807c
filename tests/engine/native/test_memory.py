"""Resident memory of a model that is only decoded: each weight once, in the packed format."""

import pathlib
import subprocess
import sys

import pytest
import torch
from resident import resident
from toy_translation import toy_model

from fairseq_specdec.engine.backend import NativeBackend
from fairseq_specdec.engine.native.library import FOLDER, load
from fairseq_specdec.engine.transformer import Transformer

SCRIPT = pathlib.Path(__file__).with_name("resident.py")
MOST = 1.15  # times the packed weights, beside the cache
CACHE = 2 << 20  # bytes: keys, values and logits of what the script decodes, and tensors of Python


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.slow
@pytest.mark.parametrize(
    "number_format, halves, weight, table",
    [("fp32", 0, 4, 0), ("fp32", 1, 2, 0), ("bf16", 1, 2, 2), ("int8", 0, 1, 4)],
)
def test_each_weight_is_in_memory_once(built, number_format, halves, weight, table):
    """``weight`` bytes each; where the format rounds, ``table`` bytes for each exact embedding."""
    command = [sys.executable, str(SCRIPT), number_format, str(halves)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=str(FOLDER.parents[2]))
    megabytes, weights, embeddings = map(float, done.stdout.split())
    wanted = weight * weights + table * embeddings
    assert wanted < megabytes * 2**20 < MOST * wanted + CACHE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_many_short_sentences_and_then_long_ones_do_not_multiply(built):
    """A cache of 256 rows of 2,048 slots would take 256 MiB."""
    weights = Transformer.read(toy_model(), NativeBackend(load()))
    sizes = []
    for rows, slots in ((256, 16), (1, 2048), (256, 16)):
        source = {"encoder_out": [torch.zeros(2, rows, 32)], "encoder_padding_mask": []}
        weights.decoder.open(source, slots).close()
        sizes.append(resident())
    assert sizes[2] - sizes[0] < 64
