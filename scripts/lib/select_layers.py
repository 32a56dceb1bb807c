"""A transformer with fewer decoder layers, cut out of a trained one such as BART.

Of bart.large, the encoder, the embeddings and decoder layers 0 and 11 are the 12+2 model that Ge et
al. (2022, section 4.1.2, Table 3) train on for grammatical error correction. A BART becomes a plain
``transformer`` of the same settings, which is the same function; what only its classification uses
is left out.
"""

import copy
import pathlib
import pickle
import re
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary

from fairseq_specdec.checkpoints.content import UNTRAINED, get_setting, set_setting, settings_of
from fairseq_specdec.checkpoints.reading import load_model
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.provenance import sha256
from fairseq_specdec.training.layers import evenly_spaced

DECODER_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
TABLES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
OUTPUT = "decoder.output_projection.weight"


def select(
    state: dict[str, Any], layers: Sequence[int], symbols: int | None = None
) -> dict[str, Any]:
    """A checkpoint with some decoder layers of another one, which is not changed.

    Args:
        layers: of the decoder, from 0, in the order in which they will be applied.
        symbols: size of the dictionary to be used, None for that of the checkpoint. One less than
            the checkpoint's drops the last row, which BART keeps for <mask>.
    """
    model: dict[str, torch.Tensor] = state["model"]
    place = {old: new for new, old in enumerate(layers)}
    rows = {model[name].size(0) for name in (*TABLES, OUTPUT) if name in model}
    if symbols is not None and rows not in ({symbols}, {symbols + 1}):
        raise UsageError(
            "the dictionary",
            f"has {symbols} symbols with the four special ones, the checkpoint's embeddings "
            f"{' and '.join(map(str, sorted(rows)))}",
            "give the dict.txt it came with",
        )
    chosen = {}
    for name, value in model.items():
        match = DECODER_LAYER.fullmatch(name)
        if match and int(match[1]) in place:
            chosen[f"decoder.layers.{place[int(match[1])]}.{match[2]}"] = value
        elif not match and not name.startswith("classification_heads."):
            chosen[name] = value[:symbols] if name in (*TABLES, OUTPUT) else value
    settings = _adjusted(copy.deepcopy(settings_of(state, "model")), len(layers))
    legacy = bool(state.get("args"))
    return {
        "args": settings if legacy else None,
        "cfg": None if legacy else dict(state["cfg"], model=settings),
        "model": chosen,
        **copy.deepcopy(UNTRAINED),
    }


def _adjusted(settings: Any, layers: int) -> Any:
    """A model's settings (a Namespace, or a dict in its flat or nested form) for so many layers,
    and those of a BART as a ``transformer`` of the translation task."""
    nested = get_setting(settings, "decoder")
    if isinstance(nested, dict):
        nested.update(layers=layers, layers_to_keep=None)
    if not isinstance(nested, dict) or get_setting(settings, "decoder_layers") is not None:
        set_setting(settings, decoder_layers=layers, decoder_layers_to_keep=None)
    name = get_setting(settings, "_name") or get_setting(settings, "arch") or ""
    if re.match(r"m?bart(_|$)", str(name)):
        plain = {"_name": "transformer", "arch": "transformer", "task": "translation"}
        set_setting(settings, **{k: v for k, v in plain.items() if get_setting(settings, k)})
    return settings


def count_layers(path: str, model: dict[str, torch.Tensor]) -> int:
    """Decoder layers of an encoder-decoder transformer's parameters."""
    numbers = {int(match[1]) for match in map(DECODER_LAYER.fullmatch, model) if match}
    if not numbers or not all(name in model for name in TABLES):
        raise UsageError(path, "holds no encoder-decoder transformer")
    return max(numbers) + 1


def write(path: pathlib.Path, output: pathlib.Path, keep: int, dictionary: pathlib.Path) -> None:
    """Write a checkpoint with ``keep`` decoder layers of another, spread evenly, the first and the
    last among them. ``dictionary``: the dict.txt to be used with it; where that lacks BART's
    <mask>, its embedding is left out."""
    try:
        state = load_model(str(path))
    except (EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise UsageError(path, f"cannot be read, it may be truncated: {error}") from error
    total = count_layers(str(path), state["model"])
    if not 1 <= keep <= total:
        raise UsageError(f"KEEP {keep}", f"the decoder has {total} layers")
    layers = evenly_spaced(keep, total, single=0)
    result = select(state, layers, len(Dictionary.load(str(dictionary))))
    record = {"file": path.name, "sha256": sha256(path), "decoder_layers": list(layers)}
    with replacing(output, "wb") as stream:
        torch.save({**result, "layer_selection": record}, stream)
