"""Resident memory of a model that is only decoded: each weight once, in the packed format."""

import pathlib
import subprocess
import sys

import pytest
import torch
from resident import dictionary, random_model, resident

from fairseq_specdec.engine.backend import NativeBackend
from fairseq_specdec.engine.native.library import FOLDER
from fairseq_specdec.engine.transformer import Transformer

SCRIPT = pathlib.Path(__file__).with_name("resident.py")
MOST = 1.15  # times the packed weights, beside the cache
CACHE = 2 << 20  # bytes: keys, values and logits of what the script decodes, and tensors of Python


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    "number_format, halves, weight, table",
    [
        pytest.param("fp32", 0, 4, 0, marks=pytest.mark.slow),
        pytest.param("fp32", 1, 2, 0, marks=pytest.mark.slow),
        pytest.param("bf16", 1, 2, 2, marks=pytest.mark.slow),
        ("int8", 0, 1, 4),
    ],
)
def test_each_weight_is_in_memory_once(built, number_format, halves, weight, table):
    """``weight`` bytes each; where the format rounds, ``table`` bytes for each exact embedding."""
    command = [sys.executable, str(SCRIPT), number_format, str(halves)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=str(FOLDER.parents[2]))
    megabytes, weights, embeddings = map(float, done.stdout.split())
    wanted = weight * weights + table * embeddings
    assert wanted < megabytes * 2**20 < MOST * wanted + CACHE


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_many_short_sentences_and_then_long_ones_do_not_multiply(loaded):
    """The cache of 256 rows of 16 slots takes 8 MiB, that of a row of 2,048 slots 4 MiB, and one of
    256 such rows would take 1 GiB."""
    model = random_model(128, dictionary(100), False)
    weights = Transformer.read(model, NativeBackend(loaded))
    sizes = []
    for rows, slots in ((256, 16), (1, 2048), (256, 16)):
        source = {"encoder_out": [torch.zeros(2, rows, 128)], "encoder_padding_mask": []}
        weights.decoder.open(source, slots).close()
        sizes.append(resident())
    assert sizes[2] - sizes[0] < 64
