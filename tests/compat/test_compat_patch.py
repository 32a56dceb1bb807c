"""The fixes as a whole: applied at import, once; what they patch looks as before."""

import copy
import inspect
import pickle
import types

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.sequence_generator import SequenceGenerator

from fairseq_specdec import compat
from fairseq_specdec.checkpoints import patches
from fairseq_specdec.compat.patch import PATCHED, wrap_once


def full_name(owner, name):
    place = owner.__name__
    if inspect.isclass(owner):
        place = f"{owner.__module__}.{owner.__qualname__}"
    return f"{place}.{name}"


EVERY = {full_name(owner, name): (owner, name, stock) for owner, name, stock in PATCHED}
every_patched = pytest.mark.parametrize("name", sorted(EVERY))


def test_applying_every_fix_again_changes_nothing():
    before = [getattr(owner, name) for owner, name, _ in PATCHED]
    compat.apply()
    patches.check_checkpoints()  # another test may have put a stock function back for a while
    assert [getattr(owner, name) for owner, name, _ in PATCHED] == before


def test_wrap_once_wraps_once_per_fix_and_keeps_the_name():
    def double(x):
        """Twice x."""
        return 2 * x

    owner = types.SimpleNamespace(double=double)
    for _ in range(3):
        wrap_once(owner, "double", "one", lambda original, x: original(x) + 1)
    assert owner.double(5) == 11
    assert owner.double.__doc__ == "Twice x."
    wrap_once(owner, "double", "two", lambda original, x: original(x) * 10)
    wrap_once(owner, "double", "one", lambda original, x: original(x) + 1)
    assert owner.double(5) == 110
    mine = [each for each in PATCHED if each[0] is owner]
    assert mine == [(owner, "double", double)]
    PATCHED.remove(mine[0])


@every_patched
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


@every_patched
def test_a_patched_function_is_pickled_and_copied(name):
    owner, attribute, _ = EVERY[name]
    patched = getattr(owner, attribute)
    assert pickle.loads(pickle.dumps(patched)) is patched
    assert copy.deepcopy(patched) is copy.copy(patched) is patched


def tiny():
    sizes = {"embed_dim": 8, "ffn_embed_dim": 8, "attention_heads": 2, "layers": 1}
    cfg = TransformerConfig()
    cfg.dropout = 0.0
    for side in (cfg.encoder, cfg.decoder):
        for key, value in sizes.items():
            setattr(side, key, value)
    cfg.decoder.input_dim = cfg.decoder.output_dim = 8
    cfg.export = True  # LayerNorm as TorchScript takes it
    return cfg


def test_a_generator_that_blocks_ngrams_is_scripted():
    dictionary = Dictionary()
    for word in "abcde":
        dictionary.add_symbol(word)
    torch.manual_seed(1)
    cfg = tiny()

    class Task:
        source_dictionary = target_dictionary = dictionary

    model = TransformerModelBase.build_model(cfg, Task)
    generator = SequenceGenerator([model], dictionary, beam_size=2, no_repeat_ngram_size=2)
    tokens = torch.tensor([[4, 5, 6, 2]])
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([4])}}
    scripted = torch.jit.script(generator)
    assert len(scripted(sample)[0]) == len(generator(sample)[0]) == 2
