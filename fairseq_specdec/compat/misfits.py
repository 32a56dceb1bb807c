"""Model files that are missing, or do not fit the task's dictionaries, are named."""

import inspect
import logging
import os
import re
from typing import Any, List, NoReturn, Sequence

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from fairseq_specdec.io.printable import flat_message, printable

from .architectures import built_from, own_task
from .own_task import STOCK
from .patch import wrap_once
from .settings import RefusedCheckpointError

logger = logging.getLogger(__name__)

# "size mismatch for encoder.embed_tokens.weight: copying a param with shape torch.Size([8, 4])
# from checkpoint, the shape in current model is torch.Size([9, 4])."
_TABLE = re.compile(
    r"size mismatch for (?:\w+\.)*(encoder|decoder)\.embed_tokens\.weight: copying a param with "
    r"shape torch\.Size\(\[(\d+), \d+\]\) from checkpoint, the shape in current model is "
    r"torch\.Size\(\[(\d+), \d+\]\)"
)
# What fairseq raises for settings of another type, that nobody wrote, or of a package it lacks.
_UNFORESEEN = (
    ArithmeticError, AssertionError, AttributeError, HydraException, ImportError, LookupError,
    OmegaConfBaseException, RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
_REMEDY = (
    "decode data binarised with the model's dict.*.txt (fairseq-preprocess --srcdict, --tgtdict)"
)
_SIDES = {"encoder": "source", "decoder": "target"}


class MisfitError(RuntimeError):
    """A model whose embeddings do not have the sizes of the task's dictionaries."""


def name_misfits() -> None:
    """Say of a model file that it is missing, which dictionary it does not fit, or that no model
    can be built of it.

    Fault: "Model file not found" without the flag; where the dictionaries of the data folder are
    not those of training, a screen of "size mismatch"; for settings that fairseq did not write, a
    traceback without the file's name. Versions: all.
    """
    from fairseq import checkpoint_utils

    wrap_once(checkpoint_utils, "load_model_ensemble_and_task", "name_misfits", _load)


def _load(original: Any, filenames: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    given = inspect.signature(original).bind(filenames, *args, **kwargs).arguments
    whole = given.get("num_shards", 1) == 1 and not given.get("suffix")
    if whole and given.get("state") is None:
        for name in filenames:
            if "://" not in str(name) and not os.path.exists(str(name)):
                several = "," in str(name) and all(map(os.path.exists, str(name).split(",")))
                remedy = "separate models by :" if several else "name a model's checkpoint"
                raise FileNotFoundError(f"{name}: no such file; {remedy}")
    try:
        loaded = original(filenames, *args, **kwargs)
        if _ours(given.get("task")):
            for text in own_task().differences(given["task"]):
                logger.warning("%s: %s", built_from(), text)
        return loaded
    except _UNFORESEEN as error:
        if isinstance(error, RuntimeError):
            _refuse_weights(error, [str(name) for name in filenames], given.get("task"))
        if "joined dictionary" in str(error):
            task = given.get("task")
            words: List[Any] = [getattr(task, f"{s}_dictionary", None) for s in _SIDES.values()]
            files = ", ".join(each.file for each in words if hasattr(each, "file"))
            raise ValueError(
                f"{':'.join(map(str, filenames))}: trained with one dictionary for both languages, "
                f"and those of the data{f' ({files})' if files else ''} differ; {_REMEDY}"
            ) from error
        path, message = built_from() or "?", flat_message(error)
        if any(str(name) in message for name in (path, *filenames)):
            raise
        own, task = own_task(), given.get("task")
        other = own.name != STOCK and task is not None and not own.made(task)
        remedy = f"decode it with {own.flags(_ours(task))}" if other else "is the file sound?"
        raise RefusedCheckpointError(
            f"{path}: holds no model that fairseq can build ({type(error).__name__}: "
            f"{message[:200]}); {remedy}"
        ) from error


def _ours(task: Any) -> bool:
    """Whether a task decodes with this project."""
    return bool(getattr(task, "decodes_speculatively", False))


def _refuse_weights(error: RuntimeError, names: List[str], task: Any) -> None:
    """Refuse a model whose embeddings do not have the sizes of ``task``'s dictionaries. Raises
    MisfitError: naming both sizes, if that is what the error is about, else RuntimeError: the first
    weight that does not fit."""
    misfits = [each for each in _TABLE.findall(str(error)) if each[1] != each[2]]
    if misfits:
        _refuse_sizes(misfits, names, task, error)
    if "loading state_dict" in str(error):
        detail = str(error).splitlines()[1:2] or [str(error)]
        raise RuntimeError(
            f"{':'.join(names)}: its weights are not those of the model that its settings "
            f"describe ({printable(detail[0].strip()[:120])}); was it written by another program?"
        ) from error


def _refuse_sizes(misfits: List[Any], names: List[str], task: Any, error: RuntimeError) -> NoReturn:
    sizes = list(dict.fromkeys(sizes[1:] for sizes in misfits))
    if len(sizes) == 1:
        sizes_there = "dictionaries of {} symbols, and those of the data have {}".format(*sizes[0])
    else:
        sizes_there = " and ".join(
            f"a {_SIDES[side]} dictionary of {there} symbols (the data's has {here})"
            for side, there, here in dict.fromkeys(misfits)
        )
    own = own_task()
    if own.adds_symbols(task):
        or_else = f", or {_REMEDY}" if own.made(task) else ""
        raise MisfitError(
            f"{':'.join(names)}: trained with {sizes_there}; its task {own.name} may have added "
            f"symbols to them: decode it with {own.flags(_ours(task))}{or_else}"
        ) from error
    raise MisfitError(f"{':'.join(names)}: trained with {sizes_there}; {_REMEDY}") from error
