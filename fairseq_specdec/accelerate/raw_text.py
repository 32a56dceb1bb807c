"""Binarise text with the verifier's dictionaries: parallel, or sources alone."""

import argparse
import itertools
import logging
import os
import shutil
from typing import Dict, List, Sequence, Tuple

from fairseq.data import Dictionary

from ..families.subwords import marked
from ..hub.described import Described
from ..hub.subwords import files_of
from . import commands
from .commands import Job
from .converted import split_texts
from .steps import run

logger = logging.getLogger("fairseq_specdec.accelerate")

_READ = 1000  # lines, of which some must be split
_FEWEST = 100  # lines that say whether they are


def binarise(job: Job, args: argparse.Namespace, descriptions: Sequence[Described]) -> None:
    """Run fairseq-preprocess on --trainpref and --validpref. Where these have sources alone, the
    verifier translates those of valid; the distillation does it with those of train.

    Args:
        descriptions: of a converted model, whose text is plain; sources alone are read.
    """
    prefixes = (args.trainpref, args.validpref)
    alone = bool(descriptions) or not any(
        os.path.isfile(f"{prefix}.{job.target}") for prefix in prefixes
    )
    data = job.converted or args.data
    if descriptions:
        prefixes = split_texts(job, descriptions, prefixes)
    else:
        _check_texts(job, args, alone)
    dest = job.file("sources") if alone else job.data
    for pair in job.all_pairs:
        source, _, target = pair.partition("-")
        words = _preprocess(job, data, (source, target), prefixes, dest)
        run(job, [*words, *["--only-source"] * alone], "binarise.log")
        if alone:
            name = f"dict.{target}.txt"
            shutil.copyfile(os.path.join(data, name), os.path.join(dest, name))
    if alone:
        logger.info("binarise: the verifier translates the sentences of %s", args.validpref)
        words = commands.distill(job._replace(data=dest), job.data, None, shared=False)
        run(job, [*words, "--gen-subset", "valid"], "distil.log")


def _preprocess(
    job: Job, data: str, pair: Tuple[str, str], prefixes: Tuple[str, str], dest: str
) -> List[str]:
    """Binarise the texts of a pair. ``data``: the folder of the dictionaries."""
    source, target = (os.path.join(data, f"dict.{side}.txt") for side in pair)
    return [
        commands.PYTHON, "-m", "fairseq_cli.preprocess", "-s", pair[0], "-t", pair[1],
        "--srcdict", source, "--tgtdict", target, "--trainpref", prefixes[0],
        "--validpref", prefixes[1], "--destdir", dest, "--workers", str(job.threads),
    ]  # fmt: skip


def _check_texts(job: Job, args: argparse.Namespace, alone: bool) -> None:
    """Refuse texts and dictionaries that are missing, and whole words."""
    dictionaries = {
        side: os.path.join(args.data, f"dict.{side}.txt") for side in (job.source, job.target)
    }
    sides = [job.source] if alone else list(dictionaries)
    texts = [f"{prefix}.{side}" for prefix in (args.trainpref, args.validpref) for side in sides]
    for file in [*dictionaries.values(), *texts]:
        if not os.path.isfile(file):
            raise FileNotFoundError(
                f"{file}: no such file; --trainpref and --validpref name texts without their "
                "language, DATA the verifier's dict.*.txt"
            )
    _check_subwords(job, args, {side: dictionaries[side] for side in sides})


def _check_subwords(job: Job, args: argparse.Namespace, dictionaries: Dict[str, str]) -> None:
    """Refuse text of whole words where the verifier reads subwords: it would be unknown to it."""
    for side, dictionary in dictionaries.items():
        marks = marked(Dictionary.load(dictionary).symbols)
        if marks is None:
            continue
        kind, entry = marks
        text = f"{args.trainpref}.{side}"
        with open(text, encoding="utf-8", errors="replace") as stream:
            lines = list(itertools.islice(stream, _READ))
        words = (word for line in lines for word in line.split())
        mark = str.startswith if kind == "sentencepiece" else str.endswith
        if len(lines) < _FEWEST or any(mark(word, ("\u2581", "@@")) for word in words):
            continue
        beside = [args.data, os.path.dirname(os.path.abspath(job.path))]
        files = files_of(kind, beside, (job.source, job.target))
        model = files[0] if len(files) == 1 else "the verifier's subword model"
        raise ValueError(
            f"--trainpref: {text} is not split into subwords, as {dictionary} is ({entry!r}); "
            f"split it with {model} first"
        )
