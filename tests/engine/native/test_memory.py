"""Resident memory of a cache that batches of other shapes use in turn."""

import sys

import pytest
import torch
from resident import resident
from toy_translation import toy_model

from fairseq_specdec.engine.backend import NativeBackend
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.engine.transformer import Transformer


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
