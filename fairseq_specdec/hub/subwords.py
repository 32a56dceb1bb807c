"""The subword model of a checkpoint: its file in the folders, and dictionaries that need one."""

import filecmp
import fnmatch
import os
import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from fairseq_specdec.errors import UsageError

# fairseq's flag for the file of each kind.
FLAGS = {"subword_nmt": "bpe_codes", "fastbpe": "bpe_codes", "sentencepiece": "sentencepiece_model"}
_CODES = ("code", "codes", "bpecodes", "bpe_codes", "codes.bpe", "*.codes")
_PIECES = ("sentencepiece*.model", "sentence.bpe.model", "spm*.model", "*.spm")
# Names that fairseq's hub, its recipes, Marian and this project give those files.
PATTERNS = {"subword_nmt": _CODES, "fastbpe": _CODES, "sentencepiece": _PIECES}
# A dictionary is of subwords where more than one entry in so many has their mark.
FEW = 100


def kind_of_file(path: str) -> str:
    """``subword_nmt`` or ``sentencepiece``, by the file's name."""
    return "sentencepiece" if path.endswith((".model", ".spm")) else "subword_nmt"


def marked(symbols: Sequence[str]) -> Optional[Tuple[str, str]]:
    """(kind, an entry) of a dictionary's subwords; None where its entries are words."""
    parts = [each for each in symbols if each.endswith("@@") and each != "@@"]
    pieces = [each for each in symbols if each.startswith("\u2581") and each != "\u2581"]
    kind, most = max(("subword_nmt", parts), ("sentencepiece", pieces), key=lambda k: len(k[1]))
    return (kind, most[0]) if len(most) * FEW > len(symbols) else None


def files_of(kind: str, folders: Iterable[str], languages: Tuple[Any, Any]) -> List[str]:
    """Files of this kind in the folders, each content once. ``languages``: source and target; a
    file that names the target is left out where one names the source."""
    files: List[str] = []
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for name in _of_source(_fitting(names, kind), languages):
            path = os.path.join(folder, name)
            known = any(filecmp.cmp(path, other, shallow=False) for other in files)
            if os.path.isfile(path) and not known:
                files.append(path)
    return files


def _fitting(names: Iterable[str], kind: str) -> List[str]:
    return [n for n in names if any(fnmatch.fnmatchcase(n, each) for each in PATTERNS[kind])]


def _of_source(names: List[str], languages: Tuple[Any, Any]) -> List[str]:
    for source, target in (("source", "target"), languages):
        word = re.compile(rf"\b{re.escape(str(source))}\b")
        of_target = {word.sub(str(target), name) for name in names if word.search(name)}
        names = [name for name in names if name not in of_target or word.search(name)]
    return names


def completed(
    chosen: Dict[str, Any], folders: List[str], dictionaries: Sequence[Any], languages: Any
) -> Dict[str, Any]:
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
            "bpe",
            f"there are several subword models ({', '.join(path for _, path in files)})",
            "pass bpe_codes=... with the file of this checkpoint",
        )
    if files:
        kind, path = files[0]
        return {**chosen, "bpe": kind, FLAGS[kind]: path}
    places = " or ".join(dict.fromkeys(map(os.path.realpath, folders)))
    if chosen:
        missing = f"{kinds[0]}'s file{f' {named}' if named else ''} is not there"
        raise UsageError(
            "bpe", f"{missing}, nor one in {places}", "pass bpe_codes=... with the file"
        )
    if marks:
        raise UsageError(
            "bpe",
            f"the dictionary is of subwords ({marks[1]!r}), and no subword model is in {places}",
            "pass bpe_codes=... with its file, or bpe=None for text that is split already",
        )
    return {}
