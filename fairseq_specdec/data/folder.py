"""The folder that fairseq-preprocess wrote: what is missing in it is named."""

import contextlib
import glob
import os
from collections.abc import Iterator
from typing import Any

from fairseq import utils
from fairseq.data import data_utils

from fairseq_specdec.errors import MissingFileError, UsageError

REMEDY = "give the folder that fairseq-preprocess wrote"


def check_data(cfg: Any) -> None:
    """Refuse data without languages or dictionaries."""
    if not cfg.data:
        raise UsageError("DATA", "missing", REMEDY)
    folder = utils.split_paths(cfg.data)[0]
    if not os.path.isdir(folder):
        kind = "is a file" if os.path.exists(folder) else "no such folder"
        raise MissingFileError(folder, kind, REMEDY)
    source, target = cfg.source_lang, cfg.target_lang
    if source is None or target is None:
        source, target = data_utils.infer_language_pair(folder)
    if source is None or target is None:
        raise UsageError("", _without_languages(folder))
    for language in (source, target):
        file = os.path.join(folder, f"dict.{language}.txt")
        if not os.path.exists(file):
            raise MissingFileError(file, "no such file", REMEDY)


def _without_languages(folder: str) -> str:
    return (
        f"{folder}: holds no binarised text (SPLIT.SOURCE-TARGET.SOURCE.idx); {REMEDY}, or name "
        "the languages with --source-lang and --target-lang"
    )


@contextlib.contextmanager
def data_named(data: str) -> Iterator[None]:
    """fairseq's errors of a folder without languages or dictionaries name it, and the remedy.
    ``data``: the folder, or several joined by colons, of any task."""
    folders = utils.split_paths(data) if data else [""]
    try:
        yield
    except FileNotFoundError as error:
        if os.path.dirname(error.filename or "") not in folders:
            raise
        raise MissingFileError(error.filename, "no such file", REMEDY) from error
    except Exception as error:
        if type(error) is not Exception:  # fairseq's own have no class
            raise
        if "infer language pair" in str(error):
            raise UsageError("", _without_languages(folders[0])) from error
        raise UsageError(folders[0], error, REMEDY) from error


def splits(folder: str, pair: str = "*-*") -> list[str]:
    """Names of the splits that a folder holds, of a pair of languages or of any."""
    names = [os.path.basename(path) for path in glob.glob(os.path.join(folder, f"*.{pair}.*.idx"))]
    return sorted({name.split(".")[0] for name in names})


@contextlib.contextmanager
def split_named(cfg: Any, split: str) -> Iterator[None]:
    """fairseq's errors of a split that is not there say which are, for one pair of languages."""
    try:
        yield
    except (FileNotFoundError, KeyError) as error:
        source, target = (getattr(cfg, f"{side}_lang", None) for side in ("source", "target"))
        folder = utils.split_paths(cfg.data)[0]
        pairs = (f"{source}-{target}", f"{target}-{source}")
        # tasks of several pairs do not look for files: they miss a key
        whole = isinstance(error, KeyError) and any(split in splits(folder, p) for p in pairs)
        if None in (source, target) or whole:
            raise
        there = ", ".join(splits(folder)) or "none"
        raise MissingFileError(
            folder,
            f"has no split {split} for {source}-{target} (it has {there})",
            "name one with --gen-subset, or binarise it with fairseq-preprocess",
        ) from error
