"""Settings are data: whatever reads a checkpoint, nothing among its settings is run or resolved."""

import argparse
import io
import itertools
import json
import os

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
            reason = "is not a literal"
        else:
            settings, reason = filled(INTERPOLATIONS[what], command), "interpolation"
        write(path, content(reader, state), settings, layout)
        text = about(path, refusal(reader, path))
        assert reason in text, (what, text)
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


def test_nested_doublings_end_soon():
    """2 to the 30th settings in some hundred bytes."""
    value = "x"
    for _ in range(30):
        value = [value, value]
    with pytest.raises(RefusedCheckpointError, match="it has over 20000 settings"):
        plain_settings({"model": {}, "args": argparse.Namespace(x=value)}, "a.pt")
    state = {"model": {}, "extra_state": value}
    assert plain_settings(state, "a.pt") is state


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


def test_the_second_model_of_an_ensemble_is_named(state, trained, tmp_path, refusal):
    path = write(tmp_path / "second.pt", state, {SETTINGS[0]: "print(1)"})
    assert "literal" in about(path, refusal("fairseq-generate", f"{trained.checkpoint}:{path}"))
