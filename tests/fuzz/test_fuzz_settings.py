"""Settings by grammar through fairseq's loading: no variable is read, and refusals are one line."""

import copy
import io
import logging
import os
from argparse import Namespace

import pytest
import settings_grammar
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from settings_grammar import SECRET, VARIABLE
from toy_pair import write_pair
from toy_translation import make_task

from fairseq_specdec.hub import SpeculativeTranslator

NAMES = settings_grammar.flat_names()


def for_a_task(path, folder):
    return checkpoint_utils.load_model_ensemble([path], task=make_task())[1]


def with_its_task(path, folder):
    overrides = {"data": folder, "source_lang": "src", "target_lang": "tgt"}
    _, cfg, task = checkpoint_utils.load_model_ensemble_and_task([path], overrides)
    return cfg, task.cfg


def to_translate(path, folder):
    translator = SpeculativeTranslator.from_pretrained(path, data=folder, tokenizer=None, bpe=None)
    return vars(translator)


def to_draft(path, folder):
    verifier = os.path.join(folder, "verifier.pt")
    translator = SpeculativeTranslator.from_pretrained(
        verifier, path, data=folder, tokenizer=None, bpe=None, strategy="gad"
    )
    return vars(translator)


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """(folder, the contents of small checkpoints by file and layout)."""
    folder, by_file = tmp_path_factory.mktemp("pair"), {}
    write_pair(folder)
    for file in ("verifier.pt", "drafter.pt"):
        state = torch.load(str(folder / file), weights_only=False)
        state["args"].__dict__.update(task="translation", source_lang="src", target_lang="tgt")
        state["args"].data = str(folder)
        cfg = convert_namespace_to_omegaconf(state["args"])
        cfg = OmegaConf.to_container(cfg, enum_to_str=True)
        by_file[file] = {"args": state, "cfg": dict(state, args=None, cfg=cfg)}
    return str(folder), by_file


def changed(state, random):
    """The checkpoint with one to three settings replaced or added."""
    state = dict(state)
    part = "args" if state["args"] is not None else "cfg"
    state[part] = copy.deepcopy(state[part])
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        group = vars(state["args"]) if part == "args" else state["cfg"]
        name = random.choice(NAMES if part == "args" else sorted(group))
        if part == "cfg" and type(group[name]) is dict and random.random() < 0.9:
            group = group[name]
            name = random.choice([*group, settings_grammar.text(random), "no_such_setting"])
        elif part == "cfg" and type(group[name]) is Namespace:
            group = vars(group[name])
            name = random.choice(NAMES)
        group[name] = settings_grammar.value(random)
    return state


def shown(cfg):
    """All values of a result, interpolations replaced."""
    if OmegaConf.is_config(cfg):
        return str(OmegaConf.to_container(cfg, resolve=True))
    return " ".join(map(shown, cfg)) if isinstance(cfg, tuple) else str(cfg)


@pytest.mark.parametrize("layout", ["args", "cfg"])
@pytest.mark.parametrize("load", [for_a_task, with_its_task, to_translate, to_draft])
def test_settings(load, layout, states, fuzz, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv(VARIABLE, SECRET)
    log = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(log)
    folder, contents = states
    state = contents["drafter.pt" if load is to_draft else "verifier.pt"][layout]
    path = str(tmp_path / "odd.pt")
    for seed in fuzz.seeds():
        torch.save(changed(state, fuzz.random(seed)), path)
        try:
            message = shown(load(path, folder))
            fuzz.counts["loaded"] += 1
        except Exception as error:  # fairseq's own loading, and hydra's, raise what they do
            message = str(error)
            if load in (to_translate, to_draft):
                assert isinstance(error, (ValueError, OSError)), (seed, error)
                assert message and len(message) < 900, (seed, error)
            fuzz.counts["refused"] += 1
        output = capfd.readouterr()
        message += output.out + output.err + log.stream.getvalue()
        log.stream.truncate(0)
        assert SECRET not in message, (seed, message)
    logging.getLogger().removeHandler(log)
