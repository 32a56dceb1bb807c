"""Settings are data: whatever reads a checkpoint, nothing among its settings is run or resolved."""

import argparse
import io
import itertools
import json
import os
import time

import pytest
import torch
from checkpoint_readers import BUILDERS, DRAFTERS, READERS, run, words_of
from fairseq import checkpoint_utils
from omegaconf import OmegaConf
from settings_payloads import HIDDEN, INTERPOLATIONS, PROGRAMS, SETTINGS, filled, write

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError, plain_settings
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


HIDDEN_IN = ("fairseq-generate", "fairseq-generate, stock task", "the hub")
IN_TURN = [(what, HIDDEN_IN[i % len(HIDDEN_IN)]) for i, what in enumerate(sorted(HIDDEN))]


@pytest.mark.parametrize("what, reader", IN_TURN)
def test_no_setting_becomes_an_interpolation(reader, what, state, tmp_path, refusal, monkeypatch):
    monkeypatch.setenv("SPECDEC_SECRET", "a-secret-word")
    path = write(tmp_path / "hostile.pt", state, filled(HIDDEN[what], ""), "args")
    text = refusal(reader, path)
    assert "interpolation" in about(path, text) and "a-secret-word" not in text


def test_configurations_elsewhere_do_nothing(state, tmp_path):
    """They are read as plain records, which nothing resolves."""
    node = OmegaConf.create({"a": ["${oc.env:HOME}"]})
    torch.save({**state, "extra_state": {"x": [node]}}, tmp_path / "hostile.pt")
    read = load_checkpoint(str(tmp_path / "hostile.pt"))["extra_state"]["x"][0]
    assert type(read).__module__ == "fairseq_specdec.checkpoints.allowed"


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
    "nested over 32 deep": {"cfg": DEEP},
    "holds no model; name a checkpoint that fairseq-train wrote": {"args": odd(), "model": {}},
    "holds no model": {"args": odd(), "model": [1]},
    "has neither args nor cfg": {},
    "its task in cfg is a str, not settings": {"cfg": {"task": "x"}},
    "its model in cfg is a list, not settings": {"cfg": {"model": [1]}},
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_is_no_checkpoint_is_refused(problem, tmp_path):
    path = tmp_path / "odd.pt"
    torch.save({"model": {"w": 1}, "args": None, "cfg": None, **REFUSED[problem]}, str(path))
    with pytest.raises(RefusedCheckpointError) as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and problem in message and "\n" not in message


@pytest.mark.parametrize("state, kind", [([1], "list"), (None, "NoneType")])
def test_what_is_no_dictionary_is_refused(state, kind, tmp_path):
    torch.save(state, str(tmp_path / "x.pt"))
    with pytest.raises(RefusedCheckpointError, match=f"holds a {kind}, no checkpoint"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "x.pt"))


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
