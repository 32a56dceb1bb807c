"""The folder that fairseq-preprocess wrote: what is missing in it is named."""

import contextlib
import glob
import os
from collections.abc import Iterator
from typing import Any

from fairseq import utils

from fairseq_specdec.errors import MissingFileError, UsageError

REMEDY = "give the folder that fairseq-preprocess wrote"


@contextlib.contextmanager
def data_named(data: str | None) -> Iterator[None]:
    """fairseq's errors of a folder that is not there, or has no languages or dictionaries, name it,
    and the remedy. ``data``: the folder, or several joined by colons, of any task."""
    if not data:
        raise UsageError("DATA", "missing", REMEDY)
    folder, *others = utils.split_paths(data)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        name = error.filename or ""
        if not {name, os.path.dirname(name)} & {folder, folder.rstrip("/"), *others}:
            raise
        problem = "no such file"
        if not os.path.isdir(folder):
            name, problem = folder, "is a file" if os.path.exists(folder) else "no such folder"
        raise MissingFileError(name, problem, REMEDY) from error
    except Exception as error:
        if type(error) is not Exception:  # fairseq's own have no class
            raise
        remedy, problem = REMEDY, str(error)
        if "infer language pair" in problem:
            problem = "holds no binarised text (SPLIT.SOURCE-TARGET.SOURCE.idx)"
            remedy += ", or name the languages with --source-lang and --target-lang"
        raise UsageError(folder, problem, remedy) from error


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
