"""fairseq reads checkpoints by ``reading``, and builds what their settings may ask for."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import os
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils

from fairseq_specdec.commands.in_fairseq import DECODING, fairseq_command
from fairseq_specdec.compat.patch import fixes
from fairseq_specdec.errors import MissingFileError

from .architectures import build, built_from, registered
from .content import UNTRAINED, architecture
from .decoding_memory import attach_packed, built, take_packed
from .own_task import STOCK, OwnTask
from .reading import check_regular, current, load_model, load_pickle, reading
from .settings import RefusedCheckpointError

logger = logging.getLogger(__name__)

_SIDES = {"encoder": "source", "decoder": "target"}
_REMEDY = "binarise the text with the model's dict.*.txt (fairseq-preprocess --srcdict, --tgtdict)"


def _torch_with(load: Callable[[Any], Any]) -> types.ModuleType:
    """torch, as fairseq's modules that read checkpoints see it."""
    seen = types.ModuleType("torch")
    read = {"load": lambda f, map_location=None: load(f)}
    seen.__dict__.update(read, __getattr__=functools.partial(getattr, torch))
    return seen


@fixes()
def check_checkpoints() -> None:
    """Read checkpoints, and build models of them, without running what they name.

    Fault: fairseq calls ``torch.load``, which refuses fairseq's own checkpoints ("Unsupported
    global"), resolves interpolations in their settings, and builds any architecture that they ask
    for. Files that are missing, stripped of their training state or of other dictionaries end in a
    traceback without their name. Versions: all.

    Concerned are fairseq's ``checkpoint_utils`` and its passing of a checkpoint from process to
    process; ``torch.load`` itself stays as it is. With fairseq's own tasks every architecture is
    built as without this plugin. The tasks of this project, and its commands, build what is in
    ``architectures.READ``; ``FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES`` adds others by name. Training
    builds its model from the command line and is not concerned.
    """
    if checkpoint_utils.torch is torch:
        checkpoint_utils.torch = _torch_with(load_model)
        # What a process sends has been read and checked by it; its settings are objects by then.
        distributed_utils.torch = _torch_with(load_pickle)


@fixes("fairseq.checkpoint_utils.load_checkpoint_to_cpu")
def _read(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    check_regular(path)
    with reading(path=str(path), state=None):
        state = original(path, *args, **kwargs)
    take_packed(path, state)
    if built_from() is not None:  # what is built from now on comes from this file
        current.set(current.get()._replace(path=str(path), state=state))
    return state


@fixes("fairseq.checkpoint_utils.load_model_ensemble_and_task")
def _load(original: Any, filenames: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    given = inspect.signature(original).bind(filenames, *args, **kwargs).arguments
    state, for_us = given.get("state"), getattr(given.get("task"), "decodes_speculatively", False)
    whole = given.get("num_shards", 1) == 1 and not given.get("suffix")
    for name in filenames if whole and state is None else ():
        if "://" not in str(name) and not os.path.exists(str(name)):
            remedy = "name a model's checkpoint, or several, separated by :"
            raise MissingFileError(name, "no such file", remedy)
    # Weights stay in their files where models are only decoded. A state that was read elsewhere is
    # a drafter's, whose weights are not all packed.
    now, only = current.get(), for_us and whole and given.get("strict", True)
    values = {"packed": now.packed if only else None, "mapped": now.mapped}
    if only and now.packed is None and state is None and fairseq_command() in DECODING:
        values = {"packed": {}, "mapped": True}
    with reading(path=str(filenames[0] if filenames else "?"), state=state, **values):
        try:
            loaded = original(filenames, *args, **kwargs)
        except RuntimeError as error:
            if "loading state_dict" not in str(error):
                raise
            detail = " ".join(str(error).splitlines()[1:2]).strip()[:200]
            problem = f"its weights are not those that its settings describe ({detail})"
            overridden = given.get("arg_overrides")
            remedy = "leave out --model-overrides" if overridden else "use another file"
            raise RefusedCheckpointError(built_from(), problem, remedy) from error
        attach_packed(loaded[0], filenames)
        read = current.get()
    for text in OwnTask(read.state).differences(given["task"]) if for_us else ():
        logger.warning("%s: %s", read.path, text)
    return loaded


@fixes("fairseq.utils.parse_embedding")
def _parse_embedding(original: Any, path: Any) -> Any:
    return {} if current.get().ours else original(path)  # all weights are in the checkpoint


@fixes("fairseq.checkpoint_utils._upgrade_state_dict")
def _upgrade(original: Any, state: Any) -> Any:
    """Training state that was left out or emptied is as of a model that was not trained."""
    history = state.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else None
    if not isinstance(last, dict) or {"lr_scheduler_state", "best_loss"}.isdisjoint(last):
        state["optimizer_history"] = copy.deepcopy(UNTRAINED["optimizer_history"])
    if not isinstance(state.get("extra_state"), dict):
        state["extra_state"] = {}
    try:
        return original(state)
    except KeyError as error:  # it converts the older layout of settings
        args, path = state.get("args"), built_from() or "?"
        if error.args == (getattr(args, "arch", None),):
            registered(args.arch, path)
        if error.args == (getattr(args, "task", None),):
            remedy = f"decode it with {OwnTask(state).flags()}"
            raise RefusedCheckpointError(path, f"its task {error} is unknown", remedy) from error
        raise


@fixes("fairseq.dataclass.utils.override_module_args")
def _override(original: Any, args: Any) -> Any:
    lines, deleted = original(args)
    for name, _, choice in (line.partition("=") for line in lines if built_from() is not None):
        if "." not in name and not re.fullmatch(r"[\w-]*", choice):  # Hydra opens a file by it
            problem = f"its {name} {choice[:80]!r} is no name"
            raise RefusedCheckpointError(built_from(), problem, "do not use this file")
    return lines, deleted


@fixes("fairseq.models.build_model")
def _build(original: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    def make() -> Any:
        known = current.get()
        if known.path is None:
            return original(cfg, *args, **kwargs)
        task, rest = (args[0], args[1:]) if args else (kwargs.pop("task"), ())
        check_sizes(known.state, known.path, task)
        return build(original, cfg, task, *rest, **kwargs)

    return built(cfg, make)


def check_sizes(state: Any, path: str, task: Any) -> None:
    """Refuse a model whose embeddings do not have the sizes of the task's dictionaries."""
    weights = state.get("model") if isinstance(state, dict) else None
    sizes = []
    for side, name in _SIDES.items():
        table = (weights or {}).get(f"{side}.embed_tokens.weight")
        words = getattr(task, f"{name}_dictionary", None)
        if table is None or words is None or len(table) == len(words):
            continue
        if len(table) == len(words) + 1 and "<mask>" not in words and "bart" in architecture(state):
            continue  # fairseq leaves <mask> out
        where = getattr(words, "file", "the data's")
        sizes.append(f"a {name} dictionary of {len(table)} symbols ({where} has {len(words)})")
    if sizes:
        own, remedy = OwnTask(state), _REMEDY
        if own.name != STOCK:
            flags = own.flags(getattr(task, "decodes_speculatively", False))
            remedy = f"its task {own.name} may have added some: decode it with {flags}, or {remedy}"
        raise RefusedCheckpointError(path, f"trained with {' and '.join(sizes)}", remedy)
