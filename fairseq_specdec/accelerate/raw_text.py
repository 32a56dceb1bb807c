"""Binarise text with the verifier's dictionaries: parallel, or sources alone."""

import argparse
import itertools
import os
import shutil
from typing import Dict

from fairseq.data import Dictionary

from ..hub.subwords import files_of, marked
from . import commands
from .commands import Job
from .steps import run

_READ = 1000  # lines, of which some must be split
_FEWEST = 100  # lines that say whether they are


def binarise(job: Job, args: argparse.Namespace) -> None:
    """Run fairseq-preprocess on --trainpref and --validpref. Where these have sources alone, the
    verifier translates those of valid; the distillation does it with those of train."""
    dictionaries = {
        side: os.path.join(args.data, f"dict.{side}.txt") for side in (job.source, job.target)
    }
    prefixes = (args.trainpref, args.validpref)
    alone = not any(os.path.isfile(f"{prefix}.{job.target}") for prefix in prefixes)
    sides = [job.source] if alone else list(dictionaries)
    texts = [f"{prefix}.{side}" for prefix in prefixes for side in sides]
    for file in [*dictionaries.values(), *texts]:
        if not os.path.isfile(file):
            raise FileNotFoundError(
                f"{file}: no such file; --trainpref and --validpref name texts without their "
                "language, DATA the verifier's dict.*.txt"
            )
    _check_subwords(job, args, {side: dictionaries[side] for side in sides})
    dest = job.file("sources") if alone else job.data
    run(
        job,
        [
            commands.PYTHON, "-m", "fairseq_cli.preprocess", "-s", job.source, "-t", job.target,
            "--srcdict", dictionaries[job.source], "--tgtdict", dictionaries[job.target],
            "--trainpref", args.trainpref, "--validpref", args.validpref, "--destdir", dest,
            "--workers", str(job.threads), *["--only-source"] * alone,
        ],
        "binarise.log",
    )  # fmt: skip
    if alone:
        target = dictionaries[job.target]
        shutil.copyfile(target, os.path.join(dest, os.path.basename(target)))
        words = commands.distill(job._replace(data=dest), job.data, None, shared=False)
        run(job, [*words, "--gen-subset", "valid"], "distil.log")


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
