"""A transformer with fewer decoder layers, cut out of a trained one such as BART.

``python -m fairseq_specdec.training.select_layers bart.large/model.pt 12_2.pt --keep 2`` keeps the
encoder, the embeddings and decoder layers 0 and 11: the 12+2 model that Ge et al. (2022, section
4.1.2, Table 3) train on for grammatical error correction. fairseq-train starts from the result by
``--finetune-from-model 12_2.pt``, fairseq-generate decodes with it.
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
import pickle
import re
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.models.transformer.transformer_base import TransformerModelBase
from omegaconf import OmegaConf

from fairseq_specdec.compat.architectures import building_from
from fairseq_specdec.compat.checkpoints import load_checkpoint
from fairseq_specdec.compat.settings import RefusedCheckpointError
from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.provenance import sha256

from .dictionaries import Dictionaries, placeholder
from .layers import evenly_spaced

logger = logging.getLogger(__name__)

DECODER_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
TABLES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
OUTPUT = "decoder.output_projection.weight"
HEADS = "classification_heads."


# What fairseq reads beside the model: of a model that has not been trained yet.
NO_TRAINING = {
    "optimizer_history": [
        {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    ],
    "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, "val_loss": None},
    "task_state": {},
}


class SelectionError(Exception):
    """Names the flag or file and the remedy."""


class Report(NamedTuple):
    """What became of a checkpoint's parameters."""

    kept: List[int]  # decoder layers of the source, in the order of the result's
    dropped: List[int]  # decoder layers left out
    heads: List[str]  # parameters that only BART's classification has, left out
    mask_row: bool  # whether the embedding of <mask>, the last, was left out
    copied: int  # parameters (tensors) taken over

    def __str__(self) -> str:
        said = [f"copied {self.copied} tensors: all but the decoder's layers as they were, and"]
        said.append("decoder layers " + ", ".join(f"{o} as {n}" for n, o in enumerate(self.kept)))
        said.append(f"(left out: {', '.join(map(str, self.dropped)) or 'none'})")
        if self.heads:
            said.append(f"; left out {', '.join(self.heads)}")
        if self.mask_row:
            said.append("; left out the embedding of <mask>, which --dict lacks")
        return " ".join(said).replace(" ;", ";")


def parse_layers(text: str) -> List[int]:
    """``"0,11"`` to numbers.

    Raises:
        SelectionError: it is no such list.
    """
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise SelectionError(f"--decoder-layers {text}: expected numbers from 0, as in 0,11")
    return [int(number) for number in text.split(",")]


def _settings(state: Dict[str, Any]) -> Any:
    return state.get("args") or (state.get("cfg") or {}).get("model")


def _get(settings: Any, name: str) -> Any:
    return settings.get(name) if isinstance(settings, dict) else getattr(settings, name, None)


def _set(settings: Any, name: str, value: Any) -> None:
    if isinstance(settings, dict):
        settings[name] = value
    else:
        setattr(settings, name, value)


def _is_bart(settings: Any) -> bool:
    name = _get(settings, "_name") or _get(settings, "arch") or ""
    return bool(re.match(r"m?bart(_|$)", str(name)))


def _make_plain(settings: Any) -> None:
    """Name a BART's settings those of a ``transformer`` of the translation task."""
    for field in ("_name", "arch"):
        if _get(settings, field):
            _set(settings, field, "transformer")
    if _get(settings, "task"):
        _set(settings, "task", "translation")


def _adjust(settings: Any, layers: int) -> None:
    """Let a model's settings (a Namespace, or a dict in its flat or nested form) say so many."""
    nested = _get(settings, "decoder")
    if isinstance(nested, dict):
        nested["layers"] = layers
        nested["layers_to_keep"] = None
    if not isinstance(nested, dict) or _get(settings, "decoder_layers") is not None:
        _set(settings, "decoder_layers", layers)
        _set(settings, "decoder_layers_to_keep", None)


def select(
    state: Dict[str, Any], layers: Sequence[int], symbols: Optional[int] = None
) -> tuple[Dict[str, Any], Report]:
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

    Raises:
        SelectionError: no encoder-decoder transformer, no such layer, or another dictionary.
    """
    model: Dict[str, torch.Tensor] = state["model"]
    settings = copy.deepcopy(_settings(state))
    if settings is None:
        raise SelectionError("holds no settings of its model (args or cfg)")
    total = _count_layers(model)
    _check_layers(layers, total)
    mask_row = _has_mask_row(model, symbols)
    chosen = _renumbered(_without_heads(model), layers)
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
        raise SelectionError(
            f"--decoder-layers {','.join(map(str, layers))}: expected different numbers from 0 to "
            f"{total - 1}, the decoder's {total} layers"
        )


def _has_mask_row(model: Dict[str, torch.Tensor], symbols: Optional[int]) -> bool:
    """Whether the embeddings have one row more than the dictionary has ``symbols``.

    Raises:
        SelectionError: the dictionary is another one.
    """
    rows = {model[name].size(0) for name in (*TABLES, OUTPUT) if name in model}
    mask_row = symbols is not None and rows == {symbols + 1}
    if symbols is not None and rows != {symbols} and not mask_row:
        raise SelectionError(
            f"--dict: has {symbols} symbols with the four special ones, the checkpoint's "
            f"embeddings {' and '.join(map(str, sorted(rows)))}; give the dict.txt it came with"
        )
    return mask_row


def _without_heads(model: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    return {name: value for name, value in model.items() if not name.startswith(HEADS)}


def _renumbered(model: Dict[str, torch.Tensor], layers: Sequence[int]) -> Dict[str, torch.Tensor]:
    """The parameters without the other decoder layers; these are numbered from 0 in this order."""
    place = {old: new for new, old in enumerate(layers)}
    chosen: Dict[str, torch.Tensor] = {}
    for name, value in model.items():
        match = DECODER_LAYER.fullmatch(name)
        if match is None:
            chosen[name] = value
        elif int(match.group(1)) in place:
            number = place[int(match.group(1))]
            chosen[f"decoder.layers.{number}.{match.group(2)}"] = value
    return chosen


def _count_layers(model: Dict[str, torch.Tensor]) -> int:
    matches = filter(None, map(DECODER_LAYER.fullmatch, model))
    numbers = {int(match.group(1)) for match in matches}
    if not numbers or not all(name in model for name in TABLES):
        raise SelectionError("holds no encoder-decoder transformer")
    return max(numbers) + 1


def load(state: Dict[str, Any]) -> TransformerModelBase:
    """The model that a checkpoint of :func:`select` holds, on the CPU, in eval mode.

    Raises:
        SelectionError: its weights are not those that its settings describe; each is named.
    """
    settings = _settings(state)
    if isinstance(settings, dict):
        settings = OmegaConf.create(settings)
    source, target = (placeholder(state["model"][name].size(0)) for name in TABLES)
    if _get(_settings(state), "share_all_embeddings"):
        target = source  # fairseq needs one dictionary, not two equal ones
    model = build_model(settings, Dictionaries(source, target))
    if not isinstance(model, TransformerModelBase):
        raise SelectionError(f"holds a {type(model).__name__}, not a transformer")
    try:
        model.load_state_dict(dict(state["model"]), strict=True, model_cfg=settings)
    except RuntimeError as error:
        raise SelectionError(f"its weights are not those that its settings say: {error}") from error
    return model.eval()


def read(path: str) -> Dict[str, Any]:
    """A fairseq checkpoint on the CPU, as saved.

    Raises:
        SelectionError: it is none, or is not complete.
    """
    if not os.path.isfile(path):
        raise SelectionError(f"{path}: no such file")
    try:
        state: Any = load_checkpoint(path)
    except (EOFError, RuntimeError, KeyError, pickle.UnpicklingError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SelectionError(f"{path}: cannot be read, it may be truncated: {text}") from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise SelectionError(f"{path}: is no fairseq checkpoint: it has no 'model'")
    return state


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_specdec.training.select_layers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", help="checkpoint of a transformer, e.g. bart.large/model.pt")
    parser.add_argument("output", help="checkpoint to write; its folder must exist")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--keep", type=int, default=2, metavar="N", help="decoder layers, spread evenly (default 2)"
    )
    which.add_argument(
        "--decoder-layers", metavar="LIST", help="which of them, from 0 and in order, e.g. 0,11"
    )
    parser.add_argument(
        "--dict",
        metavar="FILE",
        help="dict.txt to be used with the result: its size is checked, and where it lacks BART's "
        "<mask>, that embedding is left out",
    )
    parser.add_argument("--force", action="store_true", help="replace OUTPUT if it exists")
    return parser


def main(args: argparse.Namespace) -> Report:
    """Read, select, check by building the model, write.

    Raises:
        SelectionError: see :func:`select`; or OUTPUT exists.
    """
    if os.path.lexists(args.output) and not args.force:
        raise SelectionError(f"{args.output}: exists; --force replaces it")
    if args.dict and not os.path.isfile(args.dict):
        raise SelectionError(f"--dict: {args.dict} is no file")
    try:
        state = read(args.input)
        result, report = _select_and_check(state, args)
    except RefusedCheckpointError as error:
        raise SelectionError(str(error)) from error
    result["layer_selection"] = {
        "file": os.path.basename(args.input),
        "sha256": sha256(args.input),
        "decoder_layers": report.kept,
    }
    with replacing(args.output, "wb") as stream:
        torch.save(result, stream)
    logger.info("%s: %s", args.output, report)
    return report


def _select_and_check(
    state: Dict[str, Any], args: argparse.Namespace
) -> tuple[Dict[str, Any], Report]:
    """``select`` as the flags say, and build the model of the result; errors name the file."""
    try:
        layers = _asked_layers(args, _count_layers(state["model"]))
        symbols = len(Dictionary.load(args.dict)) if args.dict else None
        result, report = select(state, layers, symbols)
        with building_from(args.input):
            load(result)
    except SelectionError as error:
        text = str(error)
        raise SelectionError(text if text.startswith("--") else f"{args.input}: {text}") from error
    return result, report


def _asked_layers(args: argparse.Namespace, total: int) -> List[int]:
    """``--decoder-layers``, or those that ``--keep`` spreads over the decoder's ``total``."""
    if args.decoder_layers is not None:
        return parse_layers(args.decoder_layers)
    if not 1 <= args.keep <= total:
        raise SelectionError(f"--keep {args.keep}: expected 1 to {total}, the decoder's layers")
    return evenly_spaced(args.keep, total, single=0)


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    """The command."""
    logging.basicConfig(
        format="%(levelname)s | %(message)s",
        level=os.environ.get("LOGLEVEL", "INFO").upper(),
        stream=sys.stderr,
    )
    try:
        main(get_parser().parse_args(arguments))
    except (SelectionError, OSError) as error:
        raise SystemExit(f"select_layers: error: {error}") from error


if __name__ == "__main__":
    cli_main()
