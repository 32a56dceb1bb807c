"""A verifier that ``specdec-convert hf`` wrote: its languages, and its drafter beside it."""

import argparse
import logging
import os
import shutil
from collections.abc import Sequence

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import check_file
from ..hub import measured
from ..hub.command_line import described
from ..hub.described import VERIFIER, Described, is_converted
from ..io.atomic import replacing
from ..io.provenance import sha256
from .commands import Job
from .measuring import Best
from .state import State

logger = logging.getLogger("fairseq_specdec.accelerate")


def settle(args: argparse.Namespace) -> list[Described]:
    """A description for each pair that is asked for; [] of a verifier that was not converted. Sets
    the flags that such a folder answers, in place. Raises UsageError: a language that the model
    lacks, with those near to it."""
    if args.path is None:
        if not is_converted(args.data):
            raise UsageError("--path", "missing", "name the verifier's checkpoint")
        args.path = os.path.join(args.data, VERIFIER)
    check_file("--path", args.path)
    if not is_converted(os.path.dirname(os.path.abspath(args.path))):
        return []
    if args.lang_pairs is not None:
        return [_of_pair(args.path, pair, args.lang_pairs) for pair in args.lang_pairs.split(",")]
    description = described(args.path, args.source_lang, args.target_lang)
    args.source_lang, args.target_lang = description.languages
    return [description]


def _of_pair(path: str, pair: str, asked: str) -> Described:
    """The description for one of ``--lang-pairs``."""
    languages = pair.split("-")
    if len(languages) != 2:
        raise UsageError(f"--lang-pairs {asked}", f"expected SOURCE-TARGET,..., got {pair!r}")
    try:
        return described(path, *languages)
    except ValueError as error:
        _, _, reason = str(error).partition(" ")  # without the flag's name
        raise UsageError(f"--lang-pairs {asked}", reason) from error


def place(job: Job, state: State) -> str | None:
    """Put the drafter beside the converted verifier, where it is found by itself; its path there.
    Another drafter stays, and there is none."""
    beside = os.path.join(os.path.relpath(str(job.converted)), "drafter.pt")
    there = sha256(beside) if os.path.isfile(beside) else None
    made = sha256(job.drafter)
    if there not in (None, made, state.results("place").get("sha256")):
        logger.warning("%s: is another drafter, and stays; name %s", beside, job.drafter)
        return None
    if there != made:
        with replacing(beside, "wb") as out, open(job.drafter, "rb") as stream:
            shutil.copyfileobj(stream, out)
    state.note("place", sha256=made)
    return beside


def note_fastest(job: Job, recommended: Sequence[Best]) -> None:
    """Note beside the placed drafter how each pair decodes fastest, one sentence at a time; nothing
    where that was not measured."""
    ways: dict[str, dict[int, str]] = {}
    for best in recommended:
        if best.size == 1:
            ways.setdefault(best.pair, {})[best.beam] = best.way
    if ways:
        measured.note(str(job.converted), str(job.placed), ways)
