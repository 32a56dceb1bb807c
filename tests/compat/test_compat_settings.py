"""Settings are data: whatever reads a checkpoint, nothing among its settings is run or resolved."""

import argparse
import ast
import collections
import copy
import importlib
import io
import itertools
import os
import sys
import time
import types
from pickle import UnpicklingError

import fairseq
import pytest
import torch
from checkpoint_readers import BUILDERS, DRAFTERS, READERS, run, words_of
from fairseq import checkpoint_utils, utils
from omegaconf import OmegaConf
from settings_payloads import HIDDEN, INTERPOLATIONS, PROGRAMS, SETTINGS, filled, write

from fairseq_specdec.compat.checkpoints import load_checkpoint
from fairseq_specdec.compat.literals import (
    NotLiteralError,
    parse_literal,
    parse_settings_as_literals,
)
from fairseq_specdec.compat.settings import RefusedCheckpointError, plain_settings
from fairseq_specdec.decoding.drafter_file import MASK


@pytest.fixture(scope="module")
def state(trained):
    """The content of a sound checkpoint."""
    return torch.load(str(trained.checkpoint), map_location="cpu", weights_only=False)


def content(reader, state):
    """The content of a checkpoint that a reader takes, as far as its type is checked first."""
    if reader not in DRAFTERS:
        return state
    return dict(state, model=dict(state["model"], **{MASK: torch.zeros(16)}))


def about(path, text):
    """The lines that name a file."""
    lines = [line for line in text.splitlines() if path in line]
    assert lines, text[-3000:]
    return "\n".join(lines)


@pytest.fixture
def check(state, tmp_path, refusal):
    """Let a reader read a program or an interpolation; the rest of the file is sound."""
    canary, path = tmp_path / "canary", str(tmp_path / "hostile.pt")
    command = f"touch {canary}"

    def run(what, reader, layout):
        if what in PROGRAMS:
            setting = SETTINGS[list(PROGRAMS).index(what) % 2]
            settings = {setting: PROGRAMS[what].format(repr(command))}
            reasons = (setting, "is not a literal")
        else:
            settings, reasons = filled(INTERPOLATIONS[what], command), ("interpolation",)
        write(path, content(reader, state), settings, layout)
        text = about(path, refusal(reader, path))
        assert all(reason in text for reason in reasons), (what, text)
        assert os.environ["HOME"] not in text or what in PROGRAMS
        assert not canary.exists(), what

    return run


LAYOUTS = ("cfg", "args", "namespace")
FASTEST = "load_verifier"
# What is refused by whom, in which layouts.
REFUSALS = [(PROGRAMS, BUILDERS, LAYOUTS[:2]), (INTERPOLATIONS, READERS, LAYOUTS)]
PAIRS = [(reader, *refused) for refused in REFUSALS for reader in sorted(refused[1])]


@pytest.mark.parametrize("reader, things, readers, layouts", PAIRS)
def test_no_reader_runs_or_resolves_a_setting(reader, things, readers, layouts, check):
    """One in one layout, in turn; all of them in every layout by the fastest reader."""
    names, turn = list(things), sorted(readers).index(reader)
    if reader != FASTEST:
        names, layouts = [names[turn % len(names)]], [layouts[turn % len(layouts)]]
    for layout, what in itertools.product(layouts, names):
        check(what, reader, layout)


@pytest.mark.slow
@pytest.mark.parametrize("reader, things, readers, layouts", PAIRS)
def test_every_reader_refuses_everything(reader, things, readers, layouts, check):
    for layout, what in itertools.product(layouts, things):
        check(what, reader, layout)


HIDDEN_IN = ("fairseq-generate", "fairseq-generate, stock task", "the hub")
IN_TURN = [(what, HIDDEN_IN[i % len(HIDDEN_IN)]) for i, what in enumerate(sorted(HIDDEN))]
OTHERS = [pair for pair in itertools.product(HIDDEN, HIDDEN_IN) if pair not in IN_TURN]


@pytest.mark.parametrize(
    "what, reader", [*IN_TURN, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in OTHERS)]
)
def test_no_setting_becomes_an_interpolation(reader, what, state, tmp_path, refusal, monkeypatch):
    monkeypatch.setenv("SPECDEC_SECRET", "a-secret-word")
    path = write(tmp_path / "hostile.pt", state, filled(HIDDEN[what], ""), "args")
    text = refusal(reader, path)
    assert "interpolation" in about(path, text) and "a-secret-word" not in text


@pytest.mark.parametrize("part", ["extra_state", "optimizer_history", "task_state", "model"])
def test_configurations_elsewhere_are_refused(part, state, tmp_path):
    node = OmegaConf.create({"a": ["${oc.env:HOME}"]})
    held = [{"x": (node,)}] if part == "optimizer_history" else {"x": [node]}
    torch.save({**state, part: held}, tmp_path / "hostile.pt")
    with pytest.raises(RefusedCheckpointError, match=f"its {part} holds a configuration"):
        load_checkpoint(str(tmp_path / "hostile.pt"))


def in_metadata_of_a_node(node):
    metadata = OmegaConf.create({})._metadata
    metadata.extra = node
    return metadata


def in_attributes_of_a_dictionary(node):
    made = collections.OrderedDict()
    made._metadata = [node]
    return made


@pytest.mark.parametrize("hide", [in_metadata_of_a_node, in_attributes_of_a_dictionary])
def test_hidden_configurations_are_refused(hide):
    node = OmegaConf.create({"a": "${oc.env:HOME}"})
    with pytest.raises(RefusedCheckpointError, match="its extra_state holds a configuration"):
        plain_settings({"model": {}, "extra_state": {"x": hide(node)}}, "a.pt")


@pytest.mark.parametrize("part", ["args", "extra_state"])
def test_nested_doublings_end_soon(part):
    """2 to the 30th settings in some hundred bytes."""
    value = "x"
    for _ in range(30):
        value = [value, value]
    state = {"model": {}, part: argparse.Namespace(x=value) if part == "args" else value}
    started = time.process_time()
    if part == "args":
        with pytest.raises(RefusedCheckpointError, match="it has over 20000 settings"):
            plain_settings(state, "a.pt")
    else:
        assert plain_settings(state, "a.pt") is state
    assert time.process_time() - started < 5


def test_control_characters_do_not_reach_a_terminal():
    state = {"model": {}, "args": argparse.Namespace(**{"\x1b]0;x\x07": 1})}
    with pytest.raises(RefusedCheckpointError) as refused:
        plain_settings(state, "a\x1b.pt")
    assert str(refused.value).isprintable()


# Without these stock training begins anew.
OPTIONAL = {"--restore-file", "--finetune-from-model"}


@pytest.mark.parametrize("reader", sorted({*READERS} - OPTIONAL))
def test_what_is_no_regular_file_is_not_opened(reader, tmp_path, refusal):
    path = tmp_path / "pipe.pt"
    os.mkfifo(path)
    assert about(str(path), refusal(reader, str(path)))


@pytest.mark.parametrize("reader", ["fairseq-generate", "the hub", FASTEST])
def test_a_sound_checkpoint_passes(reader, trained, tmp_path):
    """The refusals above are for the settings: the same file without them decodes."""
    run(READERS[reader][0], words_of(reader, trained.checkpoint, trained, tmp_path), io.StringIO())


EVALUATED = {
    "[(512, 3)] * 2 + [(1, 2)]": [(512, 3), (512, 3), (1, 2)],
    "(0.9, -0.98)": (0.9, -0.98),
    "{'a': [1, {'b': None}]}": {"a": [1, {"b": None}]},
    "1e-3 * 2": 2e-3,
    "True": True,
    " 'x' ": "x",
    "([1] * 2, {'a': 2 * (3,)}, [1 + 2])": ([1, 1], {"a": (3, 3)}, [3]),
    "[0] * 10000": [0] * 10000,
    "[0] * 5000 + [1] * 5000": [0] * 5000 + [1] * 5000,
    "1e15 * 2": 2e15,
}


@pytest.mark.parametrize("text", sorted(EVALUATED))
def test_literals_are_read_as_eval_does(text):
    assert parse_literal(text) == eval(text.strip()) == EVALUATED[text]


@pytest.mark.parametrize(
    "text",
    ["[0] * 10**9", "[0] * 10001", "10**9 * [0]", "(" * 500 + ")" * 500, "", "x", "[1] + 'x'",
     "'x' * 10", "1 - 1", "10**10", "9" * 16 + " * 2", "[1] * 2.5", "{[1]: 2}", "\x00", "1;2",
     "print", "...+1", "[0, 0] * 5001", "1000000000000001 * 2",
     "[0] * 6000 + [0] * 6000", "await x", "yield"],
)  # fmt: skip
def test_what_is_no_literal_is_refused(text):
    with pytest.raises(NotLiteralError, match="is not a literal"):
        parse_literal(text)


def test_a_refusal_keeps_the_setting_and_quotes_its_beginning():
    text = "x(" + 98 * "y"
    with pytest.raises(NotLiteralError) as refused:
        parse_literal(text)
    assert refused.value.text == text
    assert str(refused.value).startswith(repr(text[:80]) + " is not a literal")


def test_modules_loaded_since_are_covered_and_no_others(monkeypatch):
    later, other = types.ModuleType("fairseq.later"), types.ModuleType("fairseq_later")
    for module in (later, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delattr(fairseq, "eval")
    parse_settings_as_literals()
    assert fairseq.eval is later.eval is parse_literal
    assert not hasattr(other, "eval") and not hasattr(argparse, "eval")


@pytest.mark.parametrize("value", [b"1", 1, None, compile("1", "x", "eval")])
def test_only_text_is_parsed(value):
    with pytest.raises(TypeError):
        parse_literal(value)
    assert utils.eval_bool(value, default="as stock") == "as stock" or value is None


def test_every_eval_in_fairseq_reads_literals():
    """No module of fairseq that evaluates text keeps Python's eval; none uses exec or compile."""
    root = os.path.dirname(fairseq.__file__)
    modules = []
    for base, _, names in os.walk(root):
        if os.path.join("fairseq", "examples") in base:
            continue  # imported by a --user-dir only
        for name in (name for name in names if name.endswith(".py")):
            path = os.path.join(base, name)
            with open(path, encoding="utf-8") as source:
                called = {
                    node.func.id
                    for node in ast.walk(ast.parse(source.read()))
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                }
            module = "fairseq." + os.path.relpath(path, root)[:-3].replace(os.sep, ".")
            assert not called & {"exec", "compile", "__import__"}, path
            if "eval" in called:
                modules.append(module)
    assert len(modules) > 10
    for module in modules:
        assert importlib.import_module(module).eval is parse_literal, module


def test_the_command_lines_lists_are_read_as_before():
    assert utils.eval_str_list("[1, 2] * 2", type=int) == [1, 2, 1, 2]
    assert utils.eval_str_list("5e-4") == [5e-4]
    assert utils.eval_str_dict("{'a': 1}") == {"a": 1}
    assert utils.eval_bool("False") is False and utils.eval_bool("1") is True


def odd(**changes):
    """Settings that no checkpoint of fairseq holds, in a Namespace."""
    made = argparse.Namespace(arch="transformer")
    vars(made).update(changes)
    return made


ODD = {
    "a tensor": {"args": odd(x=torch.ones(1))},
    "an object in a list": {"args": odd(x=[{"y": (torch.float16,)}])},
    "args of another type": {"args": {"arch": "transformer"}},
    "cfg of another type": {"cfg": ["transformer"]},
    "cfg as text": {"cfg": "model: !!python/object/apply:os.system ['touch x']"},
    "a special attribute": {"args": odd(__class__=1)},
    "an attribute of two words": {"args": odd(**{"a b": 1})},
    "an entry named by a tuple": {"cfg": {"model": {(1, 2): 3}}},
    "deep": {
        "cfg": {"model": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}
    },
}


@pytest.mark.parametrize("what", sorted(ODD))
@pytest.mark.parametrize("ordered", [False, True])
def test_settings_are_plain_values(what, ordered, tmp_path):
    path = tmp_path / "odd.pt"
    state = dict({"model": {}, "args": None, "cfg": None}, **ODD[what])
    state = collections.OrderedDict(state) if ordered else state
    with pytest.raises(RefusedCheckpointError, match=str(path)) as caught:
        plain_settings(copy.copy(state), str(path))
    assert "\n" not in str(caught.value)
    torch.save(state, str(path))
    # The reader refuses some of them before it comes to settings.
    with pytest.raises((RefusedCheckpointError, UnpicklingError), match=str(path)):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_pickled_configuration_is_read_without_resolving_it(tmp_path):
    """fairseq 1.0.0a0 pickled omegaconf's own objects."""
    path = tmp_path / "config.pt"
    state = {"model": {}, "args": None}
    torch.save(dict(state, cfg=OmegaConf.create({"a": {"b": "${oc.env:HOME}"}})), str(path))
    with pytest.raises(RefusedCheckpointError, match=r"cfg\.a\.b holds the interpolation"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    torch.save(dict(state, cfg=OmegaConf.create({"a": "${b}", "b": 1})), str(path))
    with pytest.raises(RefusedCheckpointError, match=r"cfg\.a holds"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_the_second_model_of_an_ensemble_is_named(state, trained, tmp_path, refusal):
    path = write(tmp_path / "second.pt", state, {SETTINGS[0]: "print(1)"})
    assert "literal" in about(path, refusal("fairseq-generate", f"{trained.checkpoint}:{path}"))
