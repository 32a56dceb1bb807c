"""``specdec-convert drafter``: checkpoints between the authors' layout and this project's.

Both decode as they are; a converted one is smaller, holds nothing but plain containers, and
records what it was made from.
"""

import argparse
import io
import logging
import os
from typing import Any

import torch

from fairseq_specdec.checkpoints.content import read_state
from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.decoding.training_dictionaries import trained_dictionaries
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import write_bytes
from fairseq_specdec.io.flag_values import add_flag
from fairseq_specdec.io.provenance import sha256
from fairseq_specdec.models.dictionary_digests import digest_of, setting_of

from .formats import equal, to_project, to_released

logger = logging.getLogger(__name__)

FORMATS = {"project": to_project, "authors": to_released}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of ``specdec-convert drafter``."""
    parser.add_argument("input", help="checkpoint to read")
    parser.add_argument("output", help="checkpoint to write; its folder must exist")
    add_flag(parser, "--to", "project: this project's format; authors: their layout, for drafters "
             "that came from it", tuple(sorted(FORMATS)), "project")  # fmt: skip
    add_flag(parser, "--force", "replace OUTPUT if it holds something else", default=False)


def _holds(path: str, content: bytes) -> bool:
    """Whether a file holds this checkpoint already, byte by byte or value by value."""
    with open(path, "rb") as stream:
        if stream.read() == content:
            return True
    try:
        there = load_checkpoint(path)
    except Exception as error:
        logger.info("%s: is no checkpoint (%s)", path, type(error).__name__)
        return False
    return equal(there, load_checkpoint(io.BytesIO(content)))


def _add_digests(converted: dict[str, Any], state: dict[str, Any]) -> None:
    """Give a drafter the digests of its dictionaries, where it has none and they are there."""
    for side, (file, dictionary) in trained_dictionaries(state).items():
        converted["cfg"]["model"].setdefault(setting_of(side), digest_of(dictionary))
        logger.info("%s: is its %s dictionary", file, side)


def main(args: argparse.Namespace) -> None:
    state = read_state("input", args.input)
    source = {
        "file": os.path.basename(args.input),
        "bytes": os.path.getsize(args.input),
        "sha256": sha256(args.input),
    }
    logger.info("%s: %d bytes, sha256 %s", args.input, source["bytes"], source["sha256"])
    try:
        converted = FORMATS[args.to](state, source)
        if args.to == "project":
            _add_digests(converted, state)
    except ValueError as error:
        raise UsageError(args.input, error) from error
    buffer = io.BytesIO()
    torch.save(converted, buffer)
    content = buffer.getvalue()
    if os.path.exists(args.output):
        if not os.path.isfile(args.output):
            raise UsageError(args.output, "exists and is no file")
        if _holds(args.output, content):
            logger.info("%s: holds this already", args.output)
            return
        if not args.force:
            raise UsageError(args.output, "exists and holds something else", "--force replaces it")
    write_bytes(args.output, content)
    logger.info("%s: %d bytes, sha256 %s", args.output, len(content), sha256(args.output))
