"""Which architectures are built from a checkpoint's settings, and for whom."""

from __future__ import annotations

import os
from typing import Any

from fairseq_specdec.compat.literals import NotLiteralError, parse_settings_as_literals

from .content import get_setting, set_setting
from .own_task import OwnTask
from .reading import current, reading
from .settings import RefusedCheckpointError

VARIABLE = "FAIRSEQ_SPECDEC_TRUSTED_ARCHITECTURES"

# Model classes of fairseq 0.12.1 to 0.12.3 whose code was read: settings reach nothing but sizes,
# names of functions in tables and fairseq's eval of lists (literals, see literals.py). The files
# that settings name, tables of embeddings and the recogniser that a speech model began with, are
# not opened. Others open further checkpoints that a setting names, or read no text.
_MODELS = "fairseq.models."
READ = frozenset("""
    transformer.transformer_base.TransformerModelBase transformer_align.TransformerAlignModel
    transformer.transformer_legacy.TransformerModel bart.model.BARTModel
    multilingual_transformer.MultilingualTransformerModel
    speech_to_text.s2t_transformer.S2TTransformerModel
    fconv.FConvModel fconv_lm.FConvLanguageModel lightconv.LightConvModel
    lightconv_lm.LightConvLanguageModel lstm.LSTMModel lstm_lm.LSTMLanguageModel
    nat.cmlm_transformer.CMLMNATransformerModel nat.insertion_transformer.InsertionTransformerModel
    nat.iterative_nonautoregressive_transformer.IterNATransformerModel
    nat.levenshtein_transformer.LevenshteinTransformerModel
    nat.nat_crf_transformer.NACRFTransformerModel
    nat.nonautoregressive_transformer.NATransformerModel transformer_lm.TransformerLanguageModel
""".split())  # fmt: skip
_OWN = __name__.split(".")[0] + "."
RECOGNISER = "load_pretrained_encoder_from"  # whose encoder a speech model began with


def built_from() -> str | None:
    """The file of the checkpoint whose settings are built from."""
    return current.get().path


def build(original: Any, cfg: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
    """The model of a checkpoint's settings, if its architecture may be built."""
    path = current.get().path or ""
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    if not name and len(cfg) == 1:
        name = next(iter(cfg))
    model = registered(name, path)
    for_us = getattr(task, "decodes_speculatively", False) or current.get().ours
    if for_us:
        _check_architecture(name, f"{model.__module__}.{model.__qualname__}", path)
        if OwnTask(current.get().state).reverses(task):
            remedy = "exchange --source-lang and --target-lang"
            raise RefusedCheckpointError(path, "translates in the other direction", remedy)
        if get_setting(cfg, RECOGNISER) is not None:
            set_setting(cfg, **{RECOGNISER: None})  # all weights are in the checkpoint
    parse_settings_as_literals()  # modules of fairseq that were loaded since
    try:
        with reading(ours=for_us):
            return original(cfg, task, *args, **kwargs)
    except NotLiteralError as error:
        problem = f"its setting {error}"
        raise RefusedCheckpointError(path, problem, "do not use this checkpoint") from error


def _check_architecture(name: Any, model: str, path: str) -> None:
    """Raise for an architecture that this project does not build; ``model`` is its class."""
    trusted = [word.strip() for word in os.environ.get(VARIABLE, "").split(",")]
    if name in trusted or model.startswith(_OWN) or model in {_MODELS + each for each in READ}:
        return
    problem = f"its architecture {name} ({model}) is not built from a checkpoint, since its code "
    problem += "may run settings of the file, or open files that they name"
    raise RefusedCheckpointError(path, problem, f"if you trust the file, set {VARIABLE}={name}")


def registered(name: Any, path: str) -> Any:
    """The model class of an architecture."""
    from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

    model = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    if model is None:
        remedy = "name the folder that registers it by --user-dir (its __init__.py may import "
        remedy += "fairseq_specdec.tasks)"
        raise RefusedCheckpointError(path, f"its architecture {name} is not registered", remedy)
    return model
