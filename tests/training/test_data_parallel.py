"""Models of several processes, for decoding in training."""

from argparse import Namespace

import torch

from fairseq_specdec.training.data_parallel import unwrapped


def test_wrappers_are_looked_into():
    model = torch.nn.Linear(2, 2)
    assert unwrapped(Namespace(module=Namespace(module=model))) is model
