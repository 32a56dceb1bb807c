"""The fixes as a whole: applied at import, once; what they patch looks as before."""

import inspect
import pickle

import pytest
import torch
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.sequence_generator import SequenceGenerator

from fairseq_specdec import compat
from fairseq_specdec.checkpoints.verifier import Dictionaries, placeholder
from fairseq_specdec.compat.patch import PATCHED


def full_name(owner, name):
    place = owner.__name__
    if inspect.isclass(owner):
        place = f"{owner.__module__}.{owner.__qualname__}"
    return f"{place}.{name}"


EVERY = {full_name(owner, name): (owner, name, stock) for owner, name, stock in PATCHED}


def test_applying_every_fix_again_changes_nothing():
    before = [getattr(owner, name) for owner, name, _ in PATCHED]
    compat.apply()  # another test may have put a stock function back for a while
    assert [getattr(owner, name) for owner, name, _ in PATCHED] == before
    assert len(EVERY) == len(PATCHED) > 10


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_patched_function_looks_as_before(name):
    owner, attribute, stock = EVERY[name]
    patched = getattr(owner, attribute)
    assert patched is not stock and inspect.isfunction(patched)
    for mark in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        assert getattr(patched, mark) == getattr(stock, mark), mark
    assert inspect.signature(patched) == inspect.signature(stock)
    assert inspect.getfullargspec(patched) == inspect.getfullargspec(stock)
    assert inspect.getsource(patched) == inspect.getsource(stock)
    assert patched.__globals__ is stock.__globals__
    assert pickle.loads(pickle.dumps(patched)) is patched


@pytest.mark.slow
def test_a_generator_that_blocks_ngrams_is_scripted():
    words, cfg = placeholder(9), TransformerConfig(export=True)  # LayerNorm as TorchScript takes it
    cfg.decoder.input_dim = cfg.decoder.output_dim = cfg.decoder.embed_dim
    model = TransformerModelBase.build_model(cfg, Dictionaries(words, words))
    generator = SequenceGenerator([model], words, beam_size=2, no_repeat_ngram_size=2)
    tokens = torch.tensor([[4, 5, 6, 2]])
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([4])}}
    scripted = torch.jit.script(generator)
    assert len(scripted(sample)[0]) == len(generator(sample)[0]) == 2
