"""The fixes as a whole: applied at import, once; what they patch looks as before."""

import copy
import inspect
import json
import pickle
import subprocess
import types

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import distributed_fairseq_model
from fairseq.models.transformer import TransformerConfig, TransformerModelBase
from fairseq.modules import transformer_layer
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.sequence_generator import SequenceGenerator

from fairseq_specdec import compat
from fairseq_specdec.checkpoints import patches
from fairseq_specdec.compat.patch import PATCHED, wrap_once

# What is replaced and is no function: modules that read checkpoints see their own torch, and DDP
# is a class.
OBJECTS = {
    "fairseq.checkpoint_utils.torch",
    "fairseq.distributed.utils.torch",
    "fairseq.models.distributed_fairseq_model.DistributedDataParallel",
}


# Patched functions in modules that import them by name.
IMPORTED = {"fairseq.checkpoint_utils.overwrite_args_by_name"}


def full_name(owner, name):
    place = owner.__name__
    if inspect.isclass(owner):
        place = f"{owner.__module__}.{owner.__qualname__}"
    return f"{place}.{name}"


EVERY = {full_name(patched.owner, patched.name): patched for patched in PATCHED}
every_patched = pytest.mark.parametrize("name", sorted(EVERY))


def test_applying_every_fix_again_changes_nothing():
    before = [getattr(patched.owner, patched.name) for patched in PATCHED]
    compat.apply()
    patches.apply()  # another test may have put a stock function back for a while
    assert [getattr(patched.owner, patched.name) for patched in PATCHED] == before


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
    mine = [patched for patched in PATCHED if patched.owner is owner]
    assert [patched.stock for patched in mine] == [double]
    PATCHED.remove(mine[0])


# fairseq 0.12.2 alone has it.
OF_COPIES = "fairseq.modules.transformer_layer.TransformerEncoderLayerBase._load_from_state_dict"
CHANGES = """
import inspect, json, sys
import fairseq, fairseq.trainer

def names():
    values = {}
    for module in [m for n, m in sorted(sys.modules.items()) if n.split(".")[0] == "fairseq"]:
        for name, value in vars(module).items():
            if not name.startswith("__"):
                values[f"{module.__name__}.{name}"] = value
            if inspect.isclass(value) and value.__module__ == module.__name__:
                for inner, part in list(vars(value).items()):
                    values[f"{module.__name__}.{name}.{inner}"] = part
    return values

before, loaded = names(), set(sys.modules)
import fairseq_specdec.tasks
after = names()
print(json.dumps({
    "gone": sorted(set(before) - set(after)),
    "new": sorted(name for name in set(after) - set(before)
                  if name.rpartition(".")[0] in loaded and name not in sys.modules),
    "changed": sorted(name for name in before if after.get(name) is not before[name]),
}))
"""


def test_nothing_is_patched_but_what_the_list_names(warm_python):
    """A patch that does not go through ``wrap_once`` would escape the tests below."""
    words = [str(warm_python.python), "-c", CHANGES]
    report = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert set(report["gone"]) <= {OF_COPIES}
    assert set(report["changed"]) - {OF_COPIES} == set(EVERY) | OBJECTS | IMPORTED
    assert {name.rpartition(".")[2] for name in report["new"]} == {"eval"}


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
    patched = getattr(EVERY[name].owner, EVERY[name].name)
    assert pickle.loads(pickle.dumps(patched)) is patched
    assert copy.deepcopy(patched) is copy.copy(patched) is patched


@every_patched
def test_a_patched_function_is_scripted_where_stock_is(name):
    owner, attribute, stock = EVERY[name]
    if inspect.isclass(owner) and issubclass(owner, torch.nn.Module):
        assert owner in MODULES
        return  # see below
    try:
        scripted = torch.jit.script(stock)
    except Exception as error:
        # Most of fairseq's functions are no TorchScript; the patched one fails no earlier.
        with pytest.raises(type(error)) as failed:
            torch.jit.script(getattr(owner, attribute))
        assert str(failed.value).splitlines()[0] == str(error).splitlines()[0]
    else:
        assert scripted.code == torch.jit.script(getattr(owner, attribute)).code


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


# How to make a module of each class that has a patched method, and what to give it.
MODULES = {
    NGramRepeatBlock: lambda: (
        NGramRepeatBlock(2),
        (torch.tensor([[2, 5, 6, 5]]), torch.zeros(1, 9), 1, 1, 3),
    ),
    transformer_layer.TransformerEncoderLayerBase: lambda: (
        transformer_layer.TransformerEncoderLayerBase(tiny()).eval(),
        (torch.ones(3, 1, 8), torch.zeros(1, 3, dtype=torch.bool)),
    ),
}


@pytest.mark.parametrize("kind", MODULES, ids=lambda kind: kind.__name__)
def test_a_patched_module_is_scripted_pickled_and_copied(kind):
    module, arguments = MODULES[kind]()
    expected = module(*copy.deepcopy(arguments))
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert torch.equal(again(*copy.deepcopy(arguments)), expected)
    scripted = torch.jit.script(module)
    assert scripted(*copy.deepcopy(arguments)).shape == expected.shape


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


def test_ddp_of_the_cpu_looks_as_before():
    patched = distributed_fairseq_model.DistributedDataParallel
    (stock,) = {kind for kind in patched.__mro__[1:] if kind.__name__ == patched.__name__}
    assert issubclass(patched, torch.nn.parallel.DistributedDataParallel)
    assert inspect.signature(patched) == inspect.signature(stock)
    assert patched.__doc__ == stock.__doc__
    assert pickle.loads(pickle.dumps(patched)) is patched
