"""A transformer with fewer decoder layers, cut out of a trained one such as BART.

``python -m fairseq_specdec.training.select_layers bart.large/model.pt 12_2.pt --keep 2`` keeps the
encoder, the embeddings and decoder layers 0 and 11: the 12+2 model that Ge et al. (2022, section
4.1.2, Table 3) train on for grammatical error correction. fairseq-train starts from the result by
``--finetune-from-model 12_2.pt``, fairseq-generate decodes with it.
"""

from __future__ import annotations

import argparse
import logging
import os
import pickle
import re
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import build_model
from fairseq.models.transformer.transformer_base import TransformerModelBase
from omegaconf import OmegaConf

import fairseq_specdec.tasks  # noqa: F401  (the plugin)
from fairseq_specdec.checkpoints.architectures import building_from
from fairseq_specdec.checkpoints.content import get_setting, settings_of
from fairseq_specdec.checkpoints.reading import load_model
from fairseq_specdec.checkpoints.verifier import Dictionaries, placeholder
from fairseq_specdec.commands.own import brief, command_parser, log_to_stderr, reporting
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file, replacing
from fairseq_specdec.io.flag_values import AT_LEAST_1, add_flag
from fairseq_specdec.io.provenance import sha256

from .layer_selection import TABLES, Report, count_layers, select
from .layers import evenly_spaced

logger = logging.getLogger(__name__)


def parse_layers(text: str) -> list[int]:
    """``"0,11"`` to numbers."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise UsageError(f"--decoder-layers {text}", "expected numbers from 0, as in 0,11")
    return [int(number) for number in text.split(",")]


def load(state: dict[str, Any]) -> TransformerModelBase:
    """The model that a checkpoint of :func:`select` holds, on the CPU, in eval mode."""
    settings = settings_of(state, "model")
    if isinstance(settings, dict):
        settings = OmegaConf.create(settings)
    source, target = (placeholder(state["model"][name].size(0)) for name in TABLES)
    if get_setting(settings, "share_all_embeddings"):
        target = source  # fairseq needs one dictionary, not two equal ones
    model = build_model(settings, Dictionaries(source, target))
    if not isinstance(model, TransformerModelBase):
        raise UsageError("", f"holds a {type(model).__name__}, not a transformer")
    try:
        model.load_state_dict(dict(state["model"]), strict=True, model_cfg=settings)
    except RuntimeError as error:
        raise UsageError("its weights are not those that its settings say", error) from error
    return model.eval()


def read(path: str) -> dict[str, Any]:
    """A fairseq checkpoint on the CPU, as saved."""
    if not os.path.isfile(path):
        raise UsageError(path, "no such file")
    try:
        state: dict[str, Any] = load_model(path)
    except (EOFError, RuntimeError, KeyError, pickle.UnpicklingError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(path, f"cannot be read, it may be truncated: {text}") from error
    return state


def get_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    program = "python -m fairseq_specdec.training.select_layers"
    parser = command_parser(program, __doc__, formatter_class=raw)
    parser.add_argument("input", help="checkpoint of a transformer, e.g. bart.large/model.pt")
    parser.add_argument("output", help="checkpoint to write; its folder must exist")
    which = parser.add_mutually_exclusive_group()
    add_flag(which, "--keep", "decoder layers, spread evenly", AT_LEAST_1, 2)
    add_flag(which, "--decoder-layers", "which of them, from 0 and in order, e.g. 0,11",
             metavar="LIST")  # fmt: skip
    add_flag(parser, "--dict", "dict.txt to be used with the result: its size is checked, and "
             "where it lacks BART's <mask>, that embedding is left out",
             metavar="FILE")  # fmt: skip
    add_flag(parser, "--force", "replace OUTPUT if it exists", default=False)
    return parser


def main(args: argparse.Namespace) -> Report:
    """Read, select, check by building the model, write."""
    check_new_file(args.output, "output", args.force)
    if args.dict and not os.path.isfile(args.dict):
        raise UsageError("--dict", f"{args.dict} is no file")
    result, report = _select_and_check(read(args.input), args)
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
    state: dict[str, Any], args: argparse.Namespace
) -> tuple[dict[str, Any], Report]:
    """``select`` as the flags say, and build the model of the result; errors name the file."""
    try:
        layers = _asked_layers(args, count_layers(state["model"]))
        symbols = len(Dictionary.load(args.dict)) if args.dict else None
        result, report = select(state, layers, symbols)
        with building_from(args.input, state):
            load(result)
    except ValueError as error:
        if str(error).startswith(("--", args.input)):
            raise
        raise UsageError(args.input, error) from error
    return result, report


def _asked_layers(args: argparse.Namespace, total: int) -> list[int]:
    """``--decoder-layers``, or those that ``--keep`` spreads over the decoder's ``total``."""
    if args.decoder_layers is not None:
        return parse_layers(args.decoder_layers)
    if args.keep > total:
        raise UsageError(f"--keep {args.keep}", f"expected 1 to {total}, the decoder's layers")
    return evenly_spaced(args.keep, total, single=0)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    log_to_stderr()
    with reporting("select_layers", arguments) as words:
        main(brief(get_parser(), "select_layers").parse_args(words))


if __name__ == "__main__":
    cli_main()
