"""The chain in one Triton kernel chooses what torch chooses, and builds for sm_70 and newer."""

import functools
import importlib.util
import inspect
import os
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from random_chains import random_chains, tied_chains
from toy_drafter import make_drafter

from fairseq_specdec.drafting import token_choice
from fairseq_specdec.drafting.token_choice import chain_steps

# rows, masks, candidates, width of the state, whether they are judged
CHAINS = [
    (120, 2, 8, 16, False), (90, 2, 64, 24, True), (60, 2, 5, 6, False), (30, 2, 33, 8, True),
    (3, 25, 64, 256, False), (2, 3, 64, 600, True),
]  # fmt: skip


def compare():
    """Under Triton's interpreter; raises AssertionError."""
    from fairseq_specdec.drafting import chain_kernel

    inspect.getmembers = functools.cache(inspect.getmembers)  # the interpreter asks at every call
    torch.manual_seed(0)
    cases = [(random_chains(*sizes), judges) for *sizes, judges in CHAINS]
    cases += [(random_chains(20, 2, 16, 8, dtype=torch.float16), True)]
    cases += [(tied_chains(40), judges) for judges in (False, True)]
    for given, judges in cases:
        tokens, chances = chain_kernel.chain_steps(*given, judges)
        expected, wanted = chain_steps(*given, judges)
        torch.testing.assert_close(tokens, expected, rtol=0, atol=0)
        torch.testing.assert_close(chances, wanted, equal_nan=True)


def build():
    """Compile for cards that are not there; raises what Triton or ptxas do."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from fairseq_specdec.drafting import chain_kernel

    types = {torch.float32: "*fp32", torch.float16: "*fp16", torch.int64: "*i64"}
    kernel = chain_kernel.chain
    constant = {each.name for each in kernel.params if each.is_constexpr}
    for capability, dtype, judges in [(70, torch.float32, False), (80, torch.float16, True),
                                      (90, torch.float32, True)]:  # fmt: skip
        start = mock.Mock()
        with mock.patch.object(chain_kernel, "chain", {(1,): start}):
            chain_kernel.chain_steps(*random_chains(1, 2, 64, 512, dtype=dtype), judges)
        given, options = dict(zip(kernel.arg_names, start.call_args.args)), start.call_args.kwargs
        known = {name: given[name] for name in given if name in constant or given[name] is None}
        signature = {
            name: "constexpr" if name in known else types.get(getattr(value, "dtype", None), "i32")
            for name, value in given.items()
        }
        target = GPUTarget("cuda", capability, 32)
        built = triton.compile(ASTSource(kernel, signature, known), target=target, options=options)
        assert f".target sm_{capability}" in built.asm["ptx"] and built.asm["cubin"]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
@pytest.mark.parametrize("what, interprets", [("compare", "1"), ("build", "0")])
def test_kernel(what, interprets, warm_python, tmp_path):
    env = {"TRITON_INTERPRET": interprets, "TRITON_CACHE_DIR": str(tmp_path)}
    env = {**os.environ, **env, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [warm_python.python, __file__, what]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("device, there, capability, installed, runs", [
    ("cuda:0", True, (7, 0), ["triton"], True), ("cuda:0", True, (6, 0), ["triton"], False),
    ("cuda:0", True, (9, 0), [], False), ("cuda:0", False, (9, 0), ["triton"], False),
    ("cpu", True, (9, 0), ["triton"], False),
])  # fmt: skip
def test_where_the_kernel_runs(device, there, capability, installed, runs, monkeypatch):
    kernel = SimpleNamespace(chain_steps=mock.sentinel.kernel)
    monkeypatch.setitem(sys.modules, "fairseq_specdec.drafting.chain_kernel", kernel)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(token_choice, "find_spec", lambda name: name in installed or None)
    expected = kernel.chain_steps if runs else chain_steps
    assert token_choice.steps_on(torch.device(device)) is expected


@pytest.mark.parametrize("error", [None, RuntimeError("Failed to find C compiler.\nSet CC")])
def test_torch_runs_where_the_kernel_does_not_build(error, monkeypatch, caplog):
    kernel = mock.Mock(side_effect=error or chain_steps)
    monkeypatch.setattr(token_choice, "steps_on", lambda device: kernel)
    search = token_choice.ChainSearch(make_drafter(chain_width=6).decoder, (9, 5))
    assert search.steps is (chain_steps if error else kernel)
    assert ("(Failed to find C compiler.)" in caplog.text) == (error is not None)
    assert error or {each.args[1].size(2) for each in kernel.mock_calls} == {9, 5}


if __name__ == "__main__":
    {"compare": compare, "build": build}[sys.argv[1]]()
