"""A checkpoint with some decoder layers of another one (pure functions)."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from fairseq_specdec.checkpoints.content import UNTRAINED, get_setting, set_setting, settings_of
from fairseq_specdec.errors import UsageError

DECODER_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
TABLES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
OUTPUT = "decoder.output_projection.weight"
HEADS = "classification_heads."


# What fairseq reads beside the model: of a model that has not been trained yet.
NO_TRAINING = {
    **UNTRAINED,
    "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, "val_loss": None},
}


class Report(NamedTuple):
    """What became of a checkpoint's parameters."""

    kept: list[int]  # decoder layers of the source, in the order of the result's
    dropped: list[int]  # decoder layers left out
    heads: list[str]  # parameters that only BART's classification has, left out
    mask_row: bool  # whether the embedding of <mask>, the last, was left out
    copied: int  # parameters (tensors) taken over

    def __str__(self) -> str:
        parts = [f"copied {self.copied} tensors: all but the decoder's layers as they were, and"]
        parts.append("decoder layers " + ", ".join(f"{o} as {n}" for n, o in enumerate(self.kept)))
        parts.append(f"(left out: {', '.join(map(str, self.dropped)) or 'none'})")
        if self.heads:
            parts.append(f"; left out {', '.join(self.heads)}")
        if self.mask_row:
            parts.append("; left out the embedding of <mask>, which --dict lacks")
        return " ".join(parts).replace(" ;", ";")


def _is_bart(settings: Any) -> bool:
    name = get_setting(settings, "_name") or get_setting(settings, "arch") or ""
    return bool(re.match(r"m?bart(_|$)", str(name)))


def _make_plain(settings: Any) -> None:
    """Name a BART's settings those of a ``transformer`` of the translation task."""
    for field in ("_name", "arch"):
        if get_setting(settings, field):
            set_setting(settings, **{field: "transformer"})
    if get_setting(settings, "task"):
        set_setting(settings, task="translation")


def _adjust(settings: Any, layers: int) -> None:
    """Let a model's settings (a Namespace, or a dict in its flat or nested form) say so many."""
    nested = get_setting(settings, "decoder")
    if isinstance(nested, dict):
        nested["layers"] = layers
        nested["layers_to_keep"] = None
    if not isinstance(nested, dict) or get_setting(settings, "decoder_layers") is not None:
        set_setting(settings, decoder_layers=layers, decoder_layers_to_keep=None)


def select(
    state: dict[str, Any], layers: Sequence[int], symbols: int | None = None
) -> tuple[dict[str, Any], Report]:
    """A checkpoint with some decoder layers of another one.

    A BART becomes a plain ``transformer`` of the same settings, which is the same function; what
    only its classification uses is left out.

    Args:
        state: a fairseq checkpoint as saved; not changed.
        layers: of the decoder, from 0, in the order in which they will be applied.
        symbols: size of the dictionary to be used, None for that of the checkpoint. One less than
            the checkpoint's drops the last row, which BART keeps for <mask>.

    Returns:
        The new checkpoint, and what was done.
    """
    model: dict[str, torch.Tensor] = state["model"]
    settings = copy.deepcopy(settings_of(state, "model"))
    if settings is None:
        raise UsageError("", "holds no settings of its model (args or cfg)")
    total = count_layers(model)
    _check_layers(layers, total)
    mask_row = _has_mask_row(model, symbols)
    headless = {name: value for name, value in model.items() if not name.startswith(HEADS)}
    chosen = _renumbered(headless, layers)
    if mask_row:
        tables = (name for name in (*TABLES, OUTPUT) if name in chosen)
        chosen.update({name: chosen[name][:-1] for name in tables})
    _adjust(settings, len(layers))
    if _is_bart(settings):
        _make_plain(settings)
    legacy = bool(state.get("args"))
    result = {
        "args": settings if legacy else None,
        "cfg": None if legacy else dict(state["cfg"], model=settings),
        "model": chosen,
        **copy.deepcopy(NO_TRAINING),
    }
    dropped = [layer for layer in range(total) if layer not in layers]
    heads = [name for name in model if name.startswith(HEADS)]
    return result, Report(list(layers), dropped, heads, mask_row, len(chosen))


def _check_layers(layers: Sequence[int], total: int) -> None:
    """Refuse layers that are not there, or given twice, or none."""
    wrong = [layer for layer in layers if not 0 <= layer < total]
    if wrong or not layers or len(set(layers)) != len(layers):
        raise UsageError(
            f"--decoder-layers {','.join(map(str, layers))}",
            f"expected different numbers from 0 to {total - 1}, the decoder's {total} layers",
        )


def _has_mask_row(model: dict[str, torch.Tensor], symbols: int | None) -> bool:
    """Whether the embeddings have one row more than the dictionary has ``symbols``."""
    rows = {model[name].size(0) for name in (*TABLES, OUTPUT) if name in model}
    mask_row = symbols is not None and rows == {symbols + 1}
    if symbols is not None and rows != {symbols} and not mask_row:
        raise UsageError(
            "--dict",
            f"has {symbols} symbols with the four special ones, the checkpoint's embeddings "
            f"{' and '.join(map(str, sorted(rows)))}",
            "give the dict.txt it came with",
        )
    return mask_row


def _renumbered(model: dict[str, torch.Tensor], layers: Sequence[int]) -> dict[str, torch.Tensor]:
    """The parameters without the other decoder layers; these are numbered from 0 in this order."""
    place = {old: new for new, old in enumerate(layers)}
    chosen: dict[str, torch.Tensor] = {}
    for name, value in model.items():
        match = DECODER_LAYER.fullmatch(name)
        if match is None:
            chosen[name] = value
        elif int(match.group(1)) in place:
            number = place[int(match.group(1))]
            chosen[f"decoder.layers.{number}.{match.group(2)}"] = value
    return chosen


def count_layers(model: dict[str, torch.Tensor]) -> int:
    """Decoder layers of an encoder-decoder transformer's parameters."""
    matches = filter(None, map(DECODER_LAYER.fullmatch, model))
    numbers = {int(match.group(1)) for match in matches}
    if not numbers or not all(name in model for name in TABLES):
        raise UsageError("", "holds no encoder-decoder transformer")
    return max(numbers) + 1
