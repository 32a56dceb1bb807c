"""--threads: torch and the library get them."""

from argparse import Namespace

import pytest
import torch
from toy_translation import make_task, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator
from fairseq_specdec.engine.native import library


def test_a_generator_sets_them_in_torch_and_in_the_library(monkeypatch):
    if library.load() is None:
        pytest.skip(library.why_not())
    counts, before, words = [], torch.get_num_threads(), make_task().tgt_dict
    monkeypatch.setattr(library.Library, "set_threads", lambda self, count: counts.append(count))
    try:
        for count in (3, None):
            settings = decoding_settings(threads=count)
            build_generator([toy_model(updates=1)], words, words, Namespace(beam=1), settings)
            assert torch.get_num_threads() == 3 and counts == [3]
    finally:
        torch.set_num_threads(before)
