"""All pairs of a multilingual task, distilled one after the other and published as one corpus."""

import argparse
import copy
import os
import shutil
from collections.abc import Mapping
from typing import Any

from fairseq_specdec.errors import UsageError

from .merge import DROPPED
from .resumable import ResumableJob


def pairs_of(args: argparse.Namespace) -> list[str]:
    """The pairs to distil, as in ``--lang-pairs``; [] for one pair, which other flags name."""
    given = getattr(args, "lang_pairs", None)
    named = [getattr(args, name, None) for name in ("source_lang", "target_lang")]
    if given is None or None not in named:
        return []
    if named != [None, None]:
        raise UsageError(
            "--source-lang and --target-lang",
            "name both for one pair, neither for all --lang-pairs",
        )
    return given.split(",") if isinstance(given, str) else list(given)


def of_pair(args: argparse.Namespace, pair: str) -> argparse.Namespace:
    """The command line that distils one pair beside the others."""
    made = copy.deepcopy(args)
    made.source_lang, made.target_lang = pair.split("-")
    made.dest = os.path.join(os.path.abspath(args.dest) + ".parts", "pairs", pair)
    return made


class PairsJob(ResumableJob):
    """The corpus of several pairs, each of which is a resumable job of its own."""

    def __init__(self, destination: str, report: str, jobs: Mapping[str, ResumableJob]) -> None:
        settings: dict[str, Any] = {}
        for job in jobs.values():
            settings.update(job.settings)
        settings.update({"--source-lang": None, "--target-lang": None, "pairs": ",".join(jobs)})
        super().__init__(destination, report, settings, next(iter(jobs.values())).filters)
        self.jobs = jobs

    def unfinished(self) -> list[int]:
        return [place for place, job in enumerate(self.jobs.values()) if job.completed() is None]

    def build(self, folder: str) -> dict[str, Any]:
        """Put the files of all pairs into one folder; their parts of the report, by pair."""
        about = {}
        for pair, job in self.jobs.items():
            report = job.completed()
            assert report is not None
            about[pair] = {name: report[name] for name in ("counts", "tokens", "decoding", "runs")}
            for name in report["files"]:
                as_name = f"dropped.{pair}.tsv" if name == DROPPED else name
                there = os.path.join(folder, as_name)
                if not os.path.exists(there):  # pairs share dictionaries
                    _link(os.path.join(job.destination, name), there)
        return {"pairs": about}


def _link(file: str, name: str) -> None:
    """Give a file another name, or copy it where the file system has no links."""
    try:
        os.link(file, name)
    except OSError:
        shutil.copyfile(file, name)
