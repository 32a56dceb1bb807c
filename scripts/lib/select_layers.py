"""A transformer with fewer decoder layers, cut out of a trained one such as BART.

``python scripts/lib/select_layers.py bart.large/model.pt 12_2.pt --keep 2`` keeps the encoder, the
embeddings and decoder layers 0 and 11: the 12+2 model that Ge et al. (2022, section 4.1.2, Table 3)
train on for grammatical error correction. fairseq-train starts from the result by
``--finetune-from-model 12_2.pt``. A BART becomes a plain ``transformer`` of the same settings,
which is the same function; what only its classification uses is left out.
"""

import argparse
import copy
import os
import pickle
import re
import sys
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary

from fairseq_specdec.checkpoints.content import get_setting, set_setting, settings_of
from fairseq_specdec.checkpoints.reading import load_model
from fairseq_specdec.commands.own import load_plugin, reporting
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file, replacing
from fairseq_specdec.io.flag_values import AT_LEAST_1, add_flag
from fairseq_specdec.io.provenance import sha256
from fairseq_specdec.training.layers import evenly_spaced

DECODER_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
TABLES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
OUTPUT = "decoder.output_projection.weight"
# What fairseq reads beside the model: of a model that has not been trained yet.
NO_TRAINING = {
    "optimizer_history": [
        {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    ],
    "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}, "val_loss": None},
    "task_state": {},
}


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
            "--dict",
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
        **copy.deepcopy(NO_TRAINING),
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


def main(args: argparse.Namespace) -> None:
    """Read, select, write."""
    check_new_file(args.output, "output", args.force)
    if args.dict and not os.path.isfile(args.dict):
        raise UsageError("--dict", f"{args.dict} is no file")
    try:
        state = load_model(args.input)
    except (EOFError, RuntimeError, pickle.UnpicklingError) as error:
        raise UsageError(args.input, f"cannot be read, it may be truncated: {error}") from error
    total = count_layers(args.input, state["model"])
    flag, layers = f"--keep {args.keep}", range(args.keep)
    if args.decoder_layers is not None:
        flag = f"--decoder-layers {args.decoder_layers}"
        layers = [int(n) if n.isdecimal() else -1 for n in args.decoder_layers.split(",")]
    if len(set(layers)) < len(layers) or not set(layers) <= set(range(total)):
        raise UsageError(flag, f"the decoder's layers are 0 to {total - 1}, each once")
    if args.decoder_layers is None:
        layers = evenly_spaced(args.keep, total, single=0)
    result = select(state, layers, len(Dictionary.load(args.dict)) if args.dict else None)
    name = os.path.basename(args.input)
    record = {"file": name, "sha256": sha256(args.input), "decoder_layers": list(layers)}
    with replacing(args.output, "wb") as stream:
        torch.save({**result, "layer_selection": record}, stream)


def cli_main(words: Sequence[str]) -> None:
    load_plugin()
    parser = argparse.ArgumentParser("select_layers", description=__doc__)
    parser.add_argument("input", help="checkpoint of a transformer, e.g. bart.large/model.pt")
    parser.add_argument("output", help="checkpoint to write; its folder must exist")
    which = parser.add_mutually_exclusive_group()
    add_flag(which, "--keep", "decoder layers, spread evenly", AT_LEAST_1, 2)
    add_flag(which, "--decoder-layers", "which of them, from 0 and in order, e.g. 0,11")
    add_flag(parser, "--dict", "dict.txt to be used with the result: its size is checked, and "
             "where it lacks BART's <mask>, that embedding is left out")  # fmt: skip
    add_flag(parser, "--force", "replace OUTPUT if it exists", default=False)
    with reporting("select_layers", words):
        main(parser.parse_args(words))


if __name__ == "__main__":
    cli_main(sys.argv[1:])
