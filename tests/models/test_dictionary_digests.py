"""This project's models know the dictionaries that they were trained with."""

import re
from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from toy_blockwise import blockwise_args
from toy_drafter import ToyTask, make_dictionary, save_verifier
from toy_early_exit import make_args as early_exit_args

from fairseq_specdec.checkpoints.reading import reading
from fairseq_specdec.checkpoints.settings import RefusedCheckpointError
from fairseq_specdec.decoding.drafter_file import load_drafter
from fairseq_specdec.models import (
    AttachedDrafter,
    BlockwiseTransformer,
    EarlyExitTransformer,
    SpecDrafter,
)
from fairseq_specdec.models.dictionary_digests import kept_digests
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

DIGEST = "source_dictionary_sha256"


def permuted(folder, words=40):
    """A dictionary's file with two symbols exchanged."""
    lines = [f"w{word} 1\n" for word in range(words)]
    lines[3], lines[4] = lines[4], lines[3]
    (folder / "dict.src.txt").write_text("".join(lines))
    return TranslationSpecDecTask.load_dictionary(str(folder / "dict.src.txt"))


ARCHITECTURES = ("spec_drafter_tiny", "attached_drafter_tiny")


@pytest.fixture
def state(request, tmp_path):
    """What fairseq-train saves of a drafter: ``build_model`` changes the settings."""
    arch = getattr(request, "param", ARCHITECTURES[0])
    args = Namespace(arch=arch, _name=arch, block_size=4, dropout=0.0)
    model = SpecDrafter
    if arch == ARCHITECTURES[1]:
        save_verifier(tmp_path / "v.pt", decoder_output_dim=64)
        args.attach_to, model = str(tmp_path / "v.pt"), AttachedDrafter
    ARCH_CONFIG_REGISTRY[arch](args)
    weights = model.build_model(args, ToyTask()).state_dict()
    step = {"num_updates": 0, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
    iterator = {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "shuffle": True}}
    return {"args": args, "model": weights, "optimizer_history": [step], "extra_state": iterator}


def load(path, state, source=None, target=None):
    torch.save(state, str(path))
    both = make_dictionary()
    return load_drafter(str(path), source or both, target or source or both)


@pytest.mark.parametrize("state", ARCHITECTURES, indirect=True)
def test_another_order_of_the_same_symbols_is_refused(state, tmp_path):
    path = tmp_path / "d.pt"
    load(path, state)
    message = (
        f"--drafter-path: {path}: was trained with a source dictionary whose symbols or their "
        f"order differ from those of {tmp_path / 'dict.src.txt'}; use the dict"
    )
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        load(path, state, permuted(tmp_path))
    with pytest.raises(ValueError, match="target dictionary whose symbols"):
        load(path, state, make_dictionary(), permuted(tmp_path))


@pytest.mark.parametrize(
    "model, args", [(BlockwiseTransformer, blockwise_args), (EarlyExitTransformer, early_exit_args)]
)
def test_verifiers_of_this_project_keep_digests_too(model, args, tmp_path):
    settings = args()
    model.build_model(settings, ToyTask())
    task = ToyTask()
    task.target_dictionary = permuted(tmp_path)
    with reading(path="v.pt"):
        model.build_model(settings, ToyTask())
        with pytest.raises(RefusedCheckpointError, match="^v.pt: was trained with a target dict"):
            model.build_model(settings, task)


def test_a_drafter_without_digests_loads_as_before(state, tmp_path):
    vars(state["args"]).pop(DIGEST), vars(state["args"]).pop("target_dictionary_sha256")
    load(tmp_path / "d.pt", state, permuted(tmp_path))


def test_a_digest_that_is_none_is_refused(state, tmp_path):
    for value in (5, "x", "A" * 64, "0" * 64 + "\n"):
        with pytest.raises(RefusedCheckpointError, match=f"^x.pt: its setting {DIGEST} is no SHA"):
            kept_digests(Namespace(**{DIGEST: value}), "x.pt")
    setattr(state["args"], DIGEST, "x")
    with pytest.raises(ValueError, match=f"its setting {DIGEST} is no SHA-256"):
        load(tmp_path / "d.pt", state)
