"""A directory written by fairseq-preprocess: which files make a split, which are copied."""

from __future__ import annotations

import argparse
import copy
import itertools
import os
import shutil
from collections.abc import Sequence
from typing import Any

from fairseq.data import data_utils
from torch.utils.data import ConcatDataset

from fairseq_specdec.errors import UsageError

from ..io.provenance import sha256
from .folder import splits


def each_pair(
    args: argparse.Namespace, pairs: Sequence[str]
) -> list[tuple[str, argparse.Namespace]]:
    """Each of these pairs of languages, or the one that the flags name, with its command line."""
    named = [getattr(args, side, None) for side in ("source_lang", "target_lang")]
    if named.count(None) == 1:
        raise UsageError(
            "--source-lang and --target-lang", "name both for one pair, neither for all pairs"
        )
    made = []
    for pair in pairs if None in named else ["-".join(map(str, named))]:
        flags = copy.deepcopy(args)
        flags.source_lang, flags.target_lang = pair.split("-")
        made.append((pair, flags))
    return made


class Corpus:
    """One split of a binarised language pair, that of a fairseq task, with its dictionaries.

    ``fairseq-train`` reads ``train``, ``train1``, ``train2``, ... as one training set; so does this
    class, and the distilled split is their concatenation.

    Attributes:
        source, target: the languages, as the task translates (the files may be named the other way
            round: ``train.en-de.*`` also serves a de-en teacher).
    """

    def __init__(self, directory: str, split: str, task: Any) -> None:
        self.directory, self.split = directory, split
        flags = getattr(task, "cfg", None) or task.args
        self.source, self.target = source, target = flags.source_lang, flags.target_lang
        self.source_words, self.target_words = task.source_dictionary, task.target_dictionary
        for self.pair in (f"{source}-{target}", f"{target}-{source}"):
            names = itertools.chain([split], (f"{split}{number}" for number in itertools.count(1)))
            self.splits = list(itertools.takewhile(self._has_source, names))
            if self.splits:
                return
        there = ", ".join(splits(directory)) or "none"
        raise UsageError(
            directory,
            f"has no split {split!r} with a {source} side (it has {there})",
            "name another by --gen-subset, or binarise it with fairseq-preprocess --trainpref",
        )

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _has_source(self, split: str) -> bool:
        name = self._path(self.prefix(self.source, split))
        return os.path.isfile(name) or os.path.isfile(name + ".idx")

    def prefix(self, language: str, split: str = "") -> str:
        """The file name without ``.bin``/``.idx`` of one side, as fairseq-preprocess gives it."""
        return f"{split or self.split}.{self.pair}.{language}"

    def fingerprint(self) -> dict[str, str]:
        """The SHA-256 of every file of the split and of both dictionaries, by file name."""
        names = {f"dict.{language}.txt" for language in (self.source, self.target)}
        for split in self.splits:
            for language in (self.source, self.target):
                names |= {self.prefix(language, split) + end for end in ("", ".bin", ".idx")}
        files = {name: self._path(name) for name in sorted(names)}
        return {name: sha256(path) for name, path in files.items() if os.path.isfile(path)}

    def copy_untouched(self, destination: str) -> None:
        """Copy the dictionaries and every file of every other split byte for byte."""
        pairs = {f"{self.source}-{self.target}", f"{self.target}-{self.source}"}
        for name in os.listdir(self.directory):
            first, *rest = name.split(".")
            wanted = first == "dict" or (first not in self.splits and pairs.intersection(rest))
            if wanted and os.path.isfile(self._path(name)):
                shutil.copyfile(self._path(name), os.path.join(destination, name))

    def read(self, language: str) -> ConcatDataset:
        """One side exactly as on disk, LongTensors that end in </s>, without what the task adds or
        truncates."""
        parts = []
        for split in self.splits:
            stem = self._path(self.prefix(language, split))
            words = self.source_words if language == self.source else self.target_words
            part = data_utils.load_indexed_dataset(stem, words)
            if part is None:
                raise UsageError(stem, ".bin or .idx is missing or unreadable", "binarise it again")
            if getattr(part, "supports_prefetch", False):
                part.prefetch(range(len(part)))
            parts.append(part)
        return ConcatDataset(parts)
