"""Which tokenizer and BPE: as asked for, by the checkpoint's settings, or by the folders."""

import filecmp
import fnmatch
import os
from collections.abc import Iterable
from typing import Any

from omegaconf import OmegaConf

from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.subwords import FLAGS, marked

from .loading import Loaded, Place
from .text import TextCodec

Choice = str | dict[str, Any] | None
"""A name of fairseq's ``--tokenizer`` or ``--bpe``, with its flags in a dictionary; None: none."""
# Names that fairseq's hub, its recipes, Marian and this project give the files of each kind.
_CODES = ("code", "codes", "bpecodes", "bpe_codes", "codes.bpe", "*.codes")
_PIECES = ("sentencepiece*.model", "sentence.bpe.model", "spm*.model", "*.spm")
_NAMES = {"subword_nmt": _CODES, "fastbpe": _CODES, "sentencepiece": _PIECES}


def choose_codec(
    loaded: Loaded, place: Place, tokenizer: Choice, bpe: Choice, bpe_codes: str | None
) -> TextCodec:
    """The codec that ``SpeculativeTranslator.from_pretrained``'s arguments ask for."""
    cfg, subwords = loaded.task.cfg, _chosen(loaded.saved, "bpe", bpe)
    if bpe_codes is not None:
        path, kind = os.fspath(bpe_codes), bpe
        if bpe == "auto":
            kind = "sentencepiece" if path.endswith((".model", ".spm")) else "subword_nmt"
        if not isinstance(kind, str) or kind not in FLAGS:
            raise UsageError("--bpe-codes", f"--bpe is {bpe!r}", "leave one of them out")
        subwords = {"bpe": kind, FLAGS[kind]: path}
    elif bpe == "auto" or FLAGS.get(subwords.get("bpe", "")) not in (None, *subwords):
        beside = (os.path.dirname(os.path.abspath(path)) for path in place.verifiers)
        subwords = _completed(subwords, [cfg.data, *beside], loaded)
    speaking = _chosen(loaded.saved, "tokenizer", tokenizer)
    if tokenizer == "auto" and not speaking and subwords.get("bpe") == "subword_nmt":
        speaking = {"tokenizer": "moses"}
    spoken = {"source_lang": cfg.source_lang, "target_lang": cfg.target_lang, **place.spoken}
    pair = (spoken["source_lang"], spoken["target_lang"])
    return TextCodec(speaking, subwords, pair, *loaded.dictionaries)


def _chosen(saved: Any, kind: str, choice: Choice) -> dict[str, Any]:
    """fairseq's flags for the ``tokenizer`` or ``bpe`` that was chosen or, by ``auto``, that a
    checkpoint was trained with."""
    if choice == "auto":
        # omegaconf 2.0 raises for a key that a configuration does not have
        choice = saved[kind] if saved is not None and kind in saved else None
        if choice and not isinstance(choice, str):
            plain: Any = OmegaConf.to_container(choice) if OmegaConf.is_config(choice) else choice
            given = {key: value for key, value in plain.items() if value not in (None, "???")}
            name = given.pop("_name", None)
            return {**given, kind: name} if name else {}
    if isinstance(choice, str):
        return {kind: choice}
    if choice is not None and kind not in choice:
        said = f"give a name, or a dictionary with {kind!r} in it"
        raise UsageError(f"--{kind} {choice!r}", said)
    return dict(choice or {})


def _completed(chosen: dict[str, Any], folders: list[str], loaded: Loaded) -> dict[str, Any]:
    """fairseq's flags for the subword model, with the file that the folders hold, if none was named
    or it has moved since training. ``chosen``: flags so far; {} for what the dictionaries need."""
    marks = next(filter(None, (marked(words.symbols) for words in loaded.dictionaries)), None)
    kind: str = chosen.get("bpe") or (marks[0] if marks else "")
    flag = FLAGS.get(kind)
    if flag is None or os.path.isfile(str(chosen.get(flag))):
        return chosen
    files = _files(kind, folders)
    if len(files) == 1:
        return {**chosen, "bpe": kind, flag: files[0]}
    remedy, places = "name its file with --bpe-codes", " or ".join(map(os.path.realpath, folders))
    if files:
        problem = f"there are several subword models ({', '.join(files)})"
    elif chosen:
        problem = f"{kind}'s file {chosen.get(flag, '')} is not there, nor one in {places}"
    else:
        entry = marks and marks[1]
        problem = f"the dictionary is of subwords ({entry!r}), and no subword model is in {places}"
        remedy += ", or give --bpe none for text that is split already"
    raise UsageError("--bpe", problem, remedy)


def _files(kind: str, folders: Iterable[str]) -> list[str]:
    """Files of this kind in the folders, each content once."""
    files: list[str] = []
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if (
                any(fnmatch.fnmatchcase(name, each) for each in _NAMES[kind])
                and os.path.isfile(path)
                and not any(filecmp.cmp(path, other, shallow=False) for other in files)
            ):
                files.append(path)
    return files
