"""A verifier that ``specdec-convert hf`` wrote: its languages, and plain text for it."""

import argparse
import itertools
import logging
import os
import shutil
from collections.abc import Sequence

from fairseq_specdec.errors import MissingFileError, UsageError

from ..checkpoints.content import check_file
from ..hub import measured
from ..hub.command_line import described
from ..hub.converted_text import ConvertedCodec, codec_of
from ..hub.described import VERIFIER, Described, is_converted
from ..io.atomic import replacing
from ..io.progress import Counter
from ..io.provenance import sha256
from .commands import Job
from .measuring import Best
from .state import State

logger = logging.getLogger("fairseq_specdec.accelerate")

_READ = 1000  # lines, of which most would be split
DRAFTER = "drafter.pt"


def settle(args: argparse.Namespace) -> list[Described]:
    """A description for each pair that is asked for; [] of a verifier that was not converted. Sets
    the flags that such a folder answers, in place. Raises ValueError: a language that the model
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


def split_texts(
    job: Job, descriptions: Sequence[Described], prefixes: tuple[str, str]
) -> tuple[str, str]:
    """Split plain text of the source languages into the model's pieces, below ``--out``. Returns
    the prefixes of what was written."""
    made = (job.file("pieces", "train"), job.file("pieces", "valid"))
    for language, each in {each.languages[0]: each for each in descriptions}.items():
        codec = codec_of(each)
        for prefix, to in zip(prefixes, made):
            _split(codec, f"{prefix}.{language}", f"{to}.{language}")
    return made


def _split(codec: ConvertedCodec, text: str, to: str) -> None:
    _check_text(text)
    with open(text, encoding="utf-8", errors="replace") as lines:
        total = sum(1 for _ in lines)
    title = f"binarise: {os.path.basename(text)}"
    with (
        open(text, encoding="utf-8", errors="replace") as lines,
        Counter(total, "line", logger, title=title) as counter,
        replacing(to, make_folder=True) as out,
    ):
        for line in lines:
            pieces = codec.prepared(line)
            if pieces:
                out.write(pieces + "\n")
            counter.add(1)


def _check_text(path: str) -> None:
    """Refuse a text that is missing, or is split already."""
    if not os.path.isfile(path):
        raise MissingFileError(
            path,
            "no such file",
            "--trainpref and --validpref name plain text without its language, one sentence a line",
        )
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = [line for line in itertools.islice(stream, _READ) if line.strip()]
    if not lines:
        raise UsageError(path, "holds no text", "give one sentence a line")
    if sum("\u2581" in line for line in lines) * 2 > len(lines):
        raise UsageError(
            path, "is split into pieces", "give plain text, the folder's tokenizer splits it"
        )


def place(job: Job, state: State) -> str | None:
    """Put the drafter beside the converted verifier, where it is found by itself; its path there.
    Another drafter stays, and there is none."""
    assert job.converted is not None
    beside = os.path.join(os.path.relpath(job.converted), DRAFTER)
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
    assert job.converted is not None and job.placed is not None
    ways: dict[str, dict[int, str]] = {}
    for best in recommended:
        if best.size == 1:
            ways.setdefault(best.pair, {})[best.beam] = best.way
    if ways:
        measured.note(job.converted, job.placed, ways)
