"""Binarise parallel text with the verifier's dictionaries."""

from __future__ import annotations

import argparse
import os

from . import commands
from .commands import Job
from .steps import run


def binarise(job: Job, args: argparse.Namespace) -> None:
    """Run fairseq-preprocess on --trainpref and --validpref.

    Raises:
        FileNotFoundError: a text or a dictionary is missing.
        ValueError: fairseq-preprocess failed.
    """
    dictionaries = {
        side: os.path.join(args.data, f"dict.{side}.txt") for side in (job.source, job.target)
    }
    texts = [
        f"{prefix}.{side}" for prefix in (args.trainpref, args.validpref) for side in dictionaries
    ]
    for file in [*dictionaries.values(), *texts]:
        if not os.path.isfile(file):
            raise FileNotFoundError(
                f"{file}: no such file; --trainpref and --validpref name texts without their "
                "language, DATA the verifier's dict.*.txt"
            )
    run(
        job,
        [
            commands.PYTHON, "-m", "fairseq_cli.preprocess", "-s", job.source, "-t", job.target,
            "--srcdict", dictionaries[job.source], "--tgtdict", dictionaries[job.target],
            "--trainpref", args.trainpref, "--validpref", args.validpref, "--destdir", job.data,
            "--workers", str(job.threads),
        ],
        "binarise.log",
    )  # fmt: skip
