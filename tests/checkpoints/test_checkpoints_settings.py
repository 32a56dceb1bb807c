"""Settings are data: what is no plain value is refused, and nothing is resolved."""

import argparse
import json

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError, plain_settings


def test_configurations_elsewhere_do_nothing(tmp_path):
    """They are read as plain records, which nothing resolves."""
    node = OmegaConf.create({"a": ["${oc.env:HOME}"]})
    state = {"model": {}, "args": odd(), "extra_state": {"x": [node]}}
    torch.save(state, tmp_path / "hostile.pt")
    read = load_checkpoint(str(tmp_path / "hostile.pt"))["extra_state"]["x"][0]
    assert type(read).__module__ == "fairseq_specdec.checkpoints.allowed"


def test_nested_doublings_end_soon():
    """2 to the 30th settings in some hundred bytes."""
    value = "x"
    for _ in range(30):
        value = [value, value]
    with pytest.raises(RefusedCheckpointError, match="it has over 20000 settings"):
        plain_settings({"model": {}, "args": argparse.Namespace(x=value)}, "a.pt")
    state = {"model": {}, "extra_state": value}
    assert plain_settings(state, "a.pt") is state


def odd(**changes):
    """Settings that no checkpoint of fairseq holds, in a Namespace."""
    made = argparse.Namespace(arch="transformer")
    vars(made).update(changes)
    return made


DEEP = {"model": json.loads("[" * 40 + "]" * 40)}
REFUSED = {
    "its setting args.x is a torch.Tensor": {"args": odd(x=torch.ones(1))},
    "is a torch.dtype": {"args": odd(x=[{"y": (torch.float16,)}])},
    "its args is a dict": {"args": {"arch": "transformer"}},
    "its cfg is a list": {"cfg": ["transformer"]},
    "its cfg is a str": {"cfg": "model: !!python/object/apply:os.system ['touch x']"},
    "have the name '__class__'": {"args": odd(__class__=1)},
    "have the name 'a b'": {"args": odd(**{"a b": 1})},
    "have the name '(1, 2)'": {"cfg": {"model": {(1, 2): 3}}},
    r"have the name '\x1b]0;x\x07'": {"args": odd(**{"\x1b]0;x\x07": 1})},
    "cfg.a.b holds the interpolation": {"cfg": OmegaConf.create({"a": {"b": "${oc.env:HOME}"}})},
    "nested over 32 deep": {"cfg": DEEP},
    "holds no model; name a checkpoint that fairseq-train wrote": {"args": odd(), "model": {}},
    "holds no model": {"args": odd(), "model": [1]},
    "has neither args nor cfg": {},
    "its task in cfg is a str, not settings": {"cfg": {"task": "x"}},
    "its model in cfg is a list, not settings": {"cfg": {"model": [1]}},
    "holds a list, no checkpoint": [1],
    "holds a NoneType, no checkpoint": None,
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_is_no_checkpoint_is_refused(problem, tmp_path):
    path = tmp_path / "odd.pt"
    state = REFUSED[problem]
    if isinstance(state, dict):
        state = {"model": {"w": 1}, "args": None, "cfg": None, **state}
    torch.save(state, str(path))
    with pytest.raises(RefusedCheckpointError) as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and problem in message and message.isprintable()
