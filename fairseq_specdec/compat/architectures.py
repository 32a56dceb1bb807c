"""Which architectures are built from a checkpoint's settings, and for whom."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from omegaconf import OmegaConf, open_dict

from .checkpoints import load_checkpoint
from .literals import NotLiteralError, parse_settings_as_literals
from .own_task import OwnTask
from .patch import wrap_once
from .settings import RefusedCheckpointError

VARIABLE = "FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES"

# Model classes of fairseq 0.12.1 to 0.12.3 whose code was read: settings reach nothing but sizes,
# names of functions in tables and fairseq's eval of lists (literals, see literals.py). The files
# that settings name, tables of embeddings and the recogniser that a speech model began with, are
# not opened (_opening_nothing). Others open further checkpoints that a setting
# names (tests/compat/test_architectures.py finds them), or read no text.
_MODELS = "fairseq.models."
_TRANSFORMERS = frozenset(
    (
        "transformer.transformer_base.TransformerModelBase",
        "transformer.transformer_legacy.TransformerModel",
        "transformer_align.TransformerAlignModel",
        "bart.model.BARTModel",
        "multilingual_transformer.MultilingualTransformerModel",
        "speech_to_text.s2t_transformer.S2TTransformerModel",
    )
)
READ = _TRANSFORMERS | frozenset(
    (
        "fconv.FConvModel",
        "fconv_lm.FConvLanguageModel",
        "lightconv.LightConvModel",
        "lightconv_lm.LightConvLanguageModel",
        "lstm.LSTMModel",
        "lstm_lm.LSTMLanguageModel",
        "nat.cmlm_transformer.CMLMNATransformerModel",
        "nat.insertion_transformer.InsertionTransformerModel",
        "nat.iterative_nonautoregressive_transformer.IterNATransformerModel",
        "nat.levenshtein_transformer.LevenshteinTransformerModel",
        "nat.nat_crf_transformer.NACRFTransformerModel",
        "nat.nonautoregressive_transformer.NATransformerModel",
        "transformer_lm.TransformerLanguageModel",
    )
)
_OWN = __name__.split(".")[0] + "."

_FIX = "build_known_architectures_from_checkpoints"


class _Source(NamedTuple):
    """The checkpoint that is read: its file, and the task it was trained with."""

    path: str
    task: OwnTask


_building: contextvars.ContextVar[_Source | None] = contextvars.ContextVar("_building")
# Whether the weights of what is built are those of a checkpoint that this project decodes.
_filled: contextvars.ContextVar[bool] = contextvars.ContextVar("_filled", default=False)
_ours: contextvars.ContextVar[bool] = contextvars.ContextVar("_ours", default=False)


def build_known_architectures_from_checkpoints() -> None:
    """Build for this project only architectures whose code is known to run no setting.

    Fault: a checkpoint chooses the architecture, and with it the code that reads its settings; of
    one that is not registered fairseq says "Replacement index 1 out of range". Versions: all.

    With fairseq's own tasks every architecture is built as without this plugin, except that no
    setting is evaluated. The tasks of this project build Transformers only, and its commands what
    stands in ``READ``. The variable ``FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES`` adds architectures
    by name, separated by commas. Training builds its model from the command line and is not
    concerned, nor is reading a checkpoint's weights.
    """
    from fairseq import checkpoint_utils, models, utils

    wrap_once(checkpoint_utils, "load_checkpoint_to_cpu", _FIX, _read)
    wrap_once(checkpoint_utils, "load_model_ensemble_and_task", _FIX, _load)
    wrap_once(models, "build_model", _FIX, _build)
    wrap_once(utils, "parse_embedding", _FIX, _parse)


@contextlib.contextmanager
def building_from(path: str, state: Any = None) -> Iterator[None]:
    """Models built inside come from this checkpoint's settings; ``state`` is its content."""
    token = _building.set(_Source(str(path), OwnTask(state)))
    try:
        yield
    finally:
        _building.reset(token)


def built_from() -> str | None:
    """The checkpoint whose settings a model is being built from; None for a command line's."""
    source = _building.get(None)
    return None if source is None else source.path


@contextlib.contextmanager
def known_architectures_only() -> Iterator[None]:
    """Checkpoints read inside are read for this project, whatever the task."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def own_task() -> OwnTask:
    """The task that the checkpoint which is being read was trained with."""
    source = _building.get(None)
    return OwnTask(None) if source is None else source.task


def _load(original: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
    with building_from(filenames[0] if filenames else "?", kwargs.get("state")):
        return original(filenames, *args, **kwargs)


def _read(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        state = original(path, *args, **kwargs)
    except KeyError as error:
        _explain(error, str(path))
        raise
    if _building.get(None) is not None:
        # An ensemble's next file; building_from takes it back.
        _building.set(_Source(str(path), OwnTask(state)))
    return state


def _explain(error: KeyError, path: str) -> None:
    """Raise if fairseq, which converts the older layout of settings as it reads a file, has looked
    for an architecture or a task that is not registered."""
    state, name = load_checkpoint(path), error.args[0]
    args = state.get("args")
    if getattr(args, "arch", None) == name:
        _registered(name, path)
    if getattr(args, "task", None) == name:
        raise RefusedCheckpointError(
            path, f"its task {name} is not registered", f"decode it with {OwnTask(state).flags()}"
        )


def _build(original: Any, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    source = _building.get(None)
    if source is None:
        return original(cfg, *args, **kwargs)
    task = args[0] if args else kwargs.get("task")
    _check(cfg, task, source)
    # Whether this project decodes with what is built.
    ours = getattr(task, "decodes_speculatively", False) or _ours.get()
    if ours and source.task.reverses(task):
        raise RefusedCheckpointError(
            source.path,
            "translates in the other direction",
            "exchange --source-lang and --target-lang",
        )
    parse_settings_as_literals()  # modules of fairseq that were loaded since
    try:
        with _opening_nothing(cfg) if ours else contextlib.nullcontext():
            return original(cfg, *args, **kwargs)
    except NotLiteralError as error:
        name = _setting_of(cfg, error.text)
        message = f"{source.path}: its setting {name}: {error}; do not use this checkpoint"
        raise RefusedCheckpointError("", message) from error


@contextlib.contextmanager
def _opening_nothing(cfg: Any) -> Iterator[None]:
    """Leave out the files that training began with: tables of embeddings, and the recogniser whose
    encoder a speech model has. All weights are in the checkpoint, which fairseq reads after it."""
    name = "load_pretrained_encoder_from"
    if OmegaConf.is_config(cfg):
        if name in cfg:
            with open_dict(cfg):
                cfg[name] = None
    elif getattr(cfg, name, None) is not None:
        setattr(cfg, name, None)
    token = _filled.set(True)
    try:
        yield
    finally:
        _filled.reset(token)


def _parse(original: Any, path: Any) -> Any:
    return {} if _filled.get() else original(path)


def _check(cfg: Any, task: Any, source: _Source) -> None:
    """Raise for an architecture that is not registered, or that this project does not build."""
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    if not name and len(cfg) == 1:
        name = next(iter(cfg))
    model = _registered(name, source.path)
    our_task = getattr(task, "decodes_speculatively", False)
    trusted = [word.strip() for word in os.environ.get(VARIABLE, "").split(",")]
    full = f"{model.__module__}.{model.__qualname__}"
    if name in trusted or full.startswith(_OWN) or not (our_task or _ours.get()):
        return
    known = _TRANSFORMERS if our_task else READ
    if full.startswith(_MODELS) and full[len(_MODELS) :] in known:
        return
    if our_task and full.startswith("fairseq."):
        raise RefusedCheckpointError(
            source.path,
            f"holds a {model.__name__} (architecture {name}), and this project decodes "
            "fairseq's Transformers only",
            f"decode it with {source.task.flags()}",
        )
    raise RefusedCheckpointError(
        source.path,
        f"its architecture {name} ({full}) is not built from a checkpoint, since its code may "
        "run settings of the file, or open files that they name",
        f"if you trust the file, set {VARIABLE}={name}",
    )


def _registered(name: Any, path: str) -> Any:
    """The model class of an architecture."""
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

    model = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    if model is None:
        raise RefusedCheckpointError(
            path,
            f"its architecture {name} is not registered",
            "name the folder that registers it by --user-dir (its __init__.py may import "
            "fairseq_specdec.tasks)",
        )
    return model


def _setting_of(cfg: Any, text: str) -> str:
    """The name of the setting that has the value ``text``."""
    items = cfg.items() if hasattr(cfg, "items") else vars(cfg).items()
    return next((str(name) for name, value in items if value == text), "model")
