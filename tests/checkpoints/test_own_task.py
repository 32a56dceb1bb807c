"""The task of a checkpoint, and the flags that decode with it."""

import argparse

import pytest
from omegaconf import OmegaConf

from fairseq_specdec.checkpoints.own_task import OwnTask

TASKS = {
    "translation_moe": (
        {"method": "hMoElp", "num_experts": 3, "mean_pool_gating_network": False},
        "--user-dir FOLDER_THAT_REGISTERS_IT --task translation_moe --method hMoElp "
        "--num-experts 3",
    ),
    "multilingual_translation": (
        {"lang_pairs": ["src-tgt", "tgt-src"], "encoder_langtok": "tgt", "decoder_langtok": True},
        "--task multilingual_translation --lang-pairs src-tgt,tgt-src --encoder-langtok tgt "
        "--decoder-langtok",
    ),
    "translation_from_pretrained_bart": (
        {"langs": ["src", "tgt"], "prepend_bos": True},
        "--task translation_from_pretrained_bart --langs src,tgt --prepend-bos",
    ),
    "translation": ({"langs": "a,b"}, "--task translation"),
    "translation_lev_modified": ({}, "--task translation"),
    "of somebody's": ({}, "--user-dir FOLDER_THAT_REGISTERS_IT --task 'of somebody'\"'\"'s'"),
}


def states(name, settings):
    """A checkpoint's content in each layout."""
    cfg = {"task": dict(settings, _name=name), "model": {"_name": "transformer"}}
    args = argparse.Namespace(task=name, arch="transformer", _name="transformer", **settings)
    namespace = argparse.Namespace(_name=name, **settings)
    return [
        {"args": None, "cfg": cfg},
        {"args": None, "cfg": OmegaConf.create(cfg)},
        {"args": None, "cfg": {"task": namespace}},
        {"args": args},
    ]


@pytest.mark.parametrize("name", TASKS)
def test_the_flags_are_those_that_choose_symbols(name):
    settings, command = TASKS[name]
    for state in states(name, settings):
        assert OwnTask(state).flags() == command


def test_what_names_no_task_is_translation():
    for state in (None, [], {}, {"cfg": {}}, {"cfg": {"task": {"_name": 3}}}):
        assert OwnTask(state).name == "translation"


@pytest.mark.parametrize("name, expected", [
    ("multilingual_translation", "multilingual_translation_specdec --decoder-langtok"),
    ("multilingual_translation_specdec", "multilingual_translation_specdec --decoder-langtok"),
    ("translation_lev_modified", "translation_specdec"),
    ("semisupervised_translation", "semisupervised_translation"),
])  # fmt: skip
def test_this_projects_task_is_named_where_there_is_one(name, expected):
    state = states(name, {"decoder_langtok": True})[0]
    assert OwnTask(state).flags(ours=True) == f"--task {expected}"
