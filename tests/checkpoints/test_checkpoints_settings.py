"""Settings are data: what is no plain value is refused, and nothing is resolved."""

import argparse
import json

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_specdec.checkpoints.settings import RefusedCheckpointError, plain_settings


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
    "its cfg is a str": {"cfg": "model: !!python/object/apply:os.system ['touch x']"},
    "have the name '__class__'": {"args": odd(__class__=1)},
    "have the name '(1, 2)'": {"cfg": {"model": {(1, 2): 3}}},
    r"have the name '\x1b]0;x\x07'": {"args": odd(**{"\x1b]0;x\x07": 1})},
    "cfg.a.b holds the interpolation": {"cfg": OmegaConf.create({"a": {"b": "${oc.env:HOME}"}})},
    "nested over 32 deep": {"cfg": DEEP},
    "holds no model; name a checkpoint that fairseq-train wrote": {"args": odd(), "model": {}},
    "has neither args nor cfg": {},
    "its task in cfg is a str, not settings": {"cfg": {"task": "x"}},
    "holds a list, no checkpoint": [1],
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
