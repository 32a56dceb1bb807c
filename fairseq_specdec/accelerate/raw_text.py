"""Binarise text with the verifier's dictionaries: parallel, sources alone, or plain text that the
tokenizer of a converted model splits."""

import argparse
import itertools
import logging
import os
import shutil
from collections.abc import Sequence

from fairseq.data import Dictionary

from fairseq_specdec.errors import MissingFileError, UsageError

from ..families.subwords import marked
from ..hub.converted_text import codec_of
from ..hub.described import Described
from ..hub.subwords import files_of
from ..io.atomic import replacing
from ..io.progress import Counter
from . import commands
from .commands import Job
from .steps import run

logger = logging.getLogger("fairseq_specdec.accelerate")

_READ = 1000  # lines, of which some must be split
_FEWEST = 100  # lines that say whether they are
_MISSING = "--trainpref and --validpref name texts without their language"


def binarise(job: Job, args: argparse.Namespace, descriptions: Sequence[Described]) -> None:
    """Run fairseq-preprocess on --trainpref and --validpref. Where these have sources alone, the
    verifier translates those of valid; the distillation does it with those of train.

    Args:
        descriptions: of a converted model, whose text is plain; sources alone are read.
    """
    prefixes = [args.trainpref, args.validpref]
    alone = bool(descriptions) or not any(
        os.path.isfile(f"{prefix}.{job.target}") for prefix in prefixes
    )
    data, dest = job.converted or args.data, job.file("sources") if alone else job.data
    if descriptions:
        prefixes = _split_texts(job, descriptions, prefixes)
    else:
        _check_texts(job, args.data, prefixes, [job.source] if alone else [job.source, job.target])
    for pair in job.all_pairs:
        source, _, target = pair.partition("-")
        names = [os.path.join(data, f"dict.{side}.txt") for side in (source, target)]
        words = [
            commands.PYTHON, "-m", "fairseq_cli.preprocess", "-s", source, "-t", target,
            "--srcdict", names[0], "--tgtdict", names[1], "--trainpref", prefixes[0],
            "--validpref", prefixes[1], "--destdir", dest, "--workers", str(job.threads),
            *["--only-source"] * alone,
        ]  # fmt: skip
        run(job, words, "binarise.log")
        if alone:
            shutil.copyfile(names[1], os.path.join(dest, f"dict.{target}.txt"))
    if alone:
        logger.info("binarise: the verifier translates the sentences of %s", args.validpref)
        words = commands.distill(job._replace(data=dest), job.data, None, shared=False)
        run(job, [*words, "--gen-subset", "valid"], "distil.log")


def _head(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return list(itertools.islice(stream, _READ))


def _check_texts(job: Job, data: str, prefixes: Sequence[str], sides: Sequence[str]) -> None:
    """Refuse texts and dictionaries that are missing, and text of whole words where the verifier
    reads subwords: it would be unknown to it."""
    files = [os.path.join(data, f"dict.{side}.txt") for side in (job.source, job.target)]
    for file in [*files, *(f"{prefix}.{side}" for prefix in prefixes for side in sides)]:
        if not os.path.isfile(file):
            remedy = f"{_MISSING}, DATA the verifier's dict.*.txt"
            raise MissingFileError(file, "no such file", remedy)
    for side, dictionary in zip(sides, files):
        kind, entry = marked(Dictionary.load(dictionary).symbols) or ("", "")
        text = f"{prefixes[0]}.{side}"
        lines = _head(text)
        mark = str.startswith if kind == "sentencepiece" else str.endswith
        words = (word for line in lines for word in line.split())
        if not kind or len(lines) < _FEWEST or any(mark(word, ("\u2581", "@@")) for word in words):
            continue
        beside = [data, os.path.dirname(os.path.abspath(job.path))]
        found = files_of(kind, beside, (job.source, job.target))
        model = found[0] if len(found) == 1 else "the verifier's subword model"
        problem = f"{text} is not split into subwords, as {dictionary} is ({entry!r})"
        raise UsageError("--trainpref", problem, f"split it with {model} first")


def _split_texts(job: Job, descriptions: Sequence[Described], prefixes: Sequence[str]) -> list[str]:
    """Split plain text of the source languages into the model's pieces, below ``--out``. Returns
    the prefixes of what was written."""
    made = [job.file("pieces", "train"), job.file("pieces", "valid")]
    for language, each in {each.languages[0]: each for each in descriptions}.items():
        codec = codec_of(each)
        for prefix, to in zip(prefixes, made):
            text = f"{prefix}.{language}"
            _check_plain(text)
            with open(text, encoding="utf-8", errors="replace") as lines:
                total = sum(1 for _ in lines)
            title = f"binarise: {os.path.basename(text)}"
            with (
                open(text, encoding="utf-8", errors="replace") as lines,
                Counter(total, "line", logger, title=title) as counter,
                replacing(f"{to}.{language}", make_folder=True) as out,
            ):
                for line in lines:
                    pieces = codec.prepared(line)
                    out.write(pieces + "\n" if pieces else "")
                    counter.add(1)
    return made


def _check_plain(path: str) -> None:
    """Refuse a text that is missing, or is split already."""
    if not os.path.isfile(path):
        remedy = _MISSING.replace("texts", "plain text") + ", one sentence a line"
        raise MissingFileError(path, "no such file", remedy)
    lines = [line for line in _head(path) if line.strip()]
    if not lines:
        raise UsageError(path, "holds no text", "give one sentence a line")
    if sum("\u2581" in line for line in lines) * 2 > len(lines):
        remedy = "give plain text, the folder's tokenizer splits it"
        raise UsageError(path, "is split into pieces", remedy)
