"""The subword model of a checkpoint: its file in the folders."""

import filecmp
import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.subwords import FLAGS, marked

_CODES = ("code", "codes", "bpecodes", "bpe_codes", "codes.bpe", "*.codes")
_PIECES = ("sentencepiece*.model", "sentence.bpe.model", "spm*.model", "*.spm")
# Names that fairseq's hub, its recipes, Marian and this project give those files.
PATTERNS = {"subword_nmt": _CODES, "fastbpe": _CODES, "sentencepiece": _PIECES}


def kind_of_file(path: str) -> str:
    """``subword_nmt`` or ``sentencepiece``, by the file's name."""
    return "sentencepiece" if path.endswith((".model", ".spm")) else "subword_nmt"


def files_of(kind: str, folders: Iterable[str], languages: tuple[Any, Any]) -> list[str]:
    """Files of this kind in the folders, each content once. ``languages``: source and target; a
    file that names the target is left out where one names the source."""
    files: list[str] = []
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in _of_source(_fitting(names, kind), languages):
            path = os.path.join(folder, name)
            known = any(filecmp.cmp(path, other, shallow=False) for other in files)
            if os.path.isfile(path) and not known:
                files.append(path)
    return files


def _fitting(names: Iterable[str], kind: str) -> list[str]:
    return [n for n in names if any(fnmatch.fnmatchcase(n, each) for each in PATTERNS[kind])]


def _of_source(names: list[str], languages: tuple[Any, Any]) -> list[str]:
    for source, target in (("source", "target"), languages):
        word = re.compile(rf"\b{re.escape(str(source))}\b")
        of_target = {word.sub(str(target), name) for name in names if word.search(name)}
        names = [name for name in names if name not in of_target or word.search(name)]
    return names


def completed(
    chosen: dict[str, Any], folders: list[str], dictionaries: Sequence[Any], languages: Any
) -> dict[str, Any]:
    """fairseq's flags for the subword model, with the file that the folders hold. ``chosen``: flags
    so far, the kind under ``bpe``; {} for whatever is there."""
    marks = next(filter(None, (marked(words.symbols) for words in dictionaries)), None)
    kinds = [chosen["bpe"]] if chosen else [marks[0]] if marks else ["subword_nmt", "sentencepiece"]
    if kinds[0] not in FLAGS:
        return chosen
    named = chosen.get(FLAGS[kinds[0]])
    if named is not None and os.path.isfile(str(named)):
        return chosen
    files = [(kind, path) for kind in kinds for path in files_of(kind, folders, languages)]
    if len(files) > 1:
        raise UsageError(
            "--bpe",
            f"there are several subword models ({', '.join(path for _, path in files)})",
            "name the file of this checkpoint with --bpe-codes",
        )
    if files:
        kind, path = files[0]
        return {**chosen, "bpe": kind, FLAGS[kind]: path}
    places = " or ".join(dict.fromkeys(map(os.path.realpath, folders)))
    if chosen:
        missing = f"{kinds[0]}'s file{f' {named}' if named else ''} is not there"
        raise UsageError(
            "--bpe", f"{missing}, nor one in {places}", "name its file with --bpe-codes"
        )
    if marks:
        raise UsageError(
            "--bpe",
            f"the dictionary is of subwords ({marks[1]!r}), and no subword model is in {places}",
            "name its file with --bpe-codes, or give --bpe none for text that is split already",
        )
    return {}
