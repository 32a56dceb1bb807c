"""A directory written by fairseq-preprocess: which files make a split, which are copied."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from typing import Any

from fairseq.data import data_utils

from fairseq_specdec.errors import UsageError

from ..io.atomic import sync
from ..io.provenance import sha256


class Corpus:
    """One split of a binarised language pair.

    ``fairseq-train`` reads ``train``, ``train1``, ``train2``, ... as one training set; so does this
    class, and the distilled split is their concatenation.

    Args:
        source, target: the languages, as the teacher translates (the files may be named the other
            way round: ``train.en-de.*`` also serves a de-en teacher).
    """

    def __init__(self, directory: str, split: str, source: str, target: str) -> None:
        self.directory, self.split = directory, split
        self.source, self.target = source, target
        for language in (source, target):
            if not os.path.isfile(self._path(f"dict.{language}.txt")):
                raise UsageError(
                    directory,
                    f"dict.{language}.txt is missing",
                    "binarise with fairseq-preprocess, or name the languages by "
                    "--source-lang and --target-lang",
                )
        self.splits: list[str] = []
        self.pair = ""
        for pair in (f"{source}-{target}", f"{target}-{source}"):
            while self._has_source(self._numbered(len(self.splits)), pair):
                self.splits.append(self._numbered(len(self.splits)))
            if self.splits:
                self.pair = pair
                break
        else:
            there = sorted(name for name in os.listdir(directory) if name.endswith(".idx"))
            raise UsageError(
                directory,
                f"has no split {split!r} with a {source} side",
                f"it has {', '.join(there) or 'none'}. Name another by --gen-subset, or "
                "binarise it with fairseq-preprocess --trainpref",
            )

    def _numbered(self, k: int) -> str:
        return self.split + (str(k) if k else "")

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _has_source(self, split: str, pair: str) -> bool:
        name = self._path(f"{split}.{pair}.{self.source}")
        return os.path.isfile(name) or os.path.isfile(name + ".idx")

    def prefix(self, language: str, split: str = "") -> str:
        """The file name without ``.bin``/``.idx`` of one side, as fairseq-preprocess gives it."""
        return f"{split or self.split}.{self.pair}.{language}"

    def own_files(self) -> list[str]:
        """The names of the files that hold the split and the dictionaries, sorted."""
        names = [f"dict.{language}.txt" for language in (self.source, self.target)]
        for split in self.splits:
            for language in (self.source, self.target):
                stem = self.prefix(language, split)
                names += [stem + end for end in ("", ".bin", ".idx")]
        return sorted({name for name in names if os.path.isfile(self._path(name))})

    def fingerprint(self) -> dict[str, str]:
        """The SHA-256 of every file of the split and of both dictionaries, by file name."""
        return {name: sha256(self._path(name)) for name in self.own_files()}

    def untouched_files(self) -> list[str]:
        """The names of the dictionaries and of every file of every other split, sorted."""
        pair = "(?:{0}-{1}|{1}-{0})".format(re.escape(self.source), re.escape(self.target))
        data = re.compile(rf"(?P<split>[^.]+)\.(?:align\.)?{pair}(?:\.[^.]+)?(?:\.bin|\.idx)?")
        names = []
        for name in sorted(os.listdir(self.directory)):
            match = data.fullmatch(name)
            other_split = match is not None and match.group("split") not in self.splits
            if other_split or re.fullmatch(r"dict\..+\.txt", name):
                names.append(name)
        return [name for name in names if os.path.isfile(self._path(name))]

    def copy_untouched(self, destination: str) -> list[str]:
        """Copy :meth:`untouched_files` byte for byte; return their names."""
        names = self.untouched_files()
        for name in names:
            shutil.copyfile(self._path(name), os.path.join(destination, name))
            sync(os.path.join(destination, name))
        return names

    def read(self, language: str, dictionary: Any, dataset_impl: Any = None) -> Sentences:
        """One side exactly as on disk, without what the task adds or truncates."""
        parts = []
        for split in self.splits:
            stem = self._path(self.prefix(language, split))
            part = data_utils.load_indexed_dataset(stem, dictionary, dataset_impl)
            if part is None:
                raise UsageError("", f"{stem}.bin or .idx is missing or unreadable")
            if getattr(part, "supports_prefetch", False):
                part.prefetch(range(len(part)))
            parts.append(part)
        return Sentences(parts)


class Sentences:
    """Several indexed datasets read as one: ``len``, ``[i]`` (LongTensor ending in </s>)."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = list(parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getitem__(self, index: int) -> Any:
        for part in self.parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)
