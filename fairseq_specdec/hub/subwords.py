"""Which tokenizer and BPE: as asked for, by the checkpoint's settings, or by the folders."""

import filecmp
import fnmatch
import os
import re
from collections.abc import Iterable
from typing import Any

from omegaconf import OmegaConf

from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.subwords import FLAGS, marked

from .loading import Loaded, Place
from .text import TextCodec

Choice = str | dict[str, Any] | None
"""A name of fairseq's ``--tokenizer`` or ``--bpe``, with its flags in a dictionary; None: none."""
_CODES = ("code", "codes", "bpecodes", "bpe_codes", "codes.bpe", "*.codes")
_PIECES = ("sentencepiece*.model", "sentence.bpe.model", "spm*.model", "*.spm")
# Names that fairseq's hub, its recipes, Marian and this project give those files.
PATTERNS = {"subword_nmt": _CODES, "fastbpe": _CODES, "sentencepiece": _PIECES}


def choose_codec(
    loaded: Loaded, place: Place, tokenizer: Choice, bpe: Choice, bpe_codes: str | None
) -> TextCodec:
    """The codec that ``SpeculativeTranslator.from_pretrained``'s arguments ask for."""
    cfg = loaded.task.cfg
    folders = [cfg.data, *(os.path.dirname(os.path.abspath(path)) for path in place.verifiers)]
    subwords, languages = _chosen(loaded.saved, "bpe", bpe), (cfg.source_lang, cfg.target_lang)
    if bpe_codes is not None:
        path = os.fspath(bpe_codes)
        kind = bpe
        if bpe == "auto":
            kind = "sentencepiece" if path.endswith((".model", ".spm")) else "subword_nmt"
        if not isinstance(kind, str) or kind not in FLAGS:
            raise UsageError("--bpe-codes", f"--bpe is {bpe!r}", "leave one of them out")
        subwords = {"bpe": kind, FLAGS[kind]: path}
    elif bpe == "auto" or (subwords and FLAGS.get(str(subwords["bpe"])) not in (None, *subwords)):
        subwords = _completed(subwords, folders, loaded, languages)
    speaking = _chosen(loaded.saved, "tokenizer", tokenizer)
    if tokenizer == "auto" and not speaking and subwords.get("bpe") == "subword_nmt":
        speaking = {"tokenizer": "moses"}
    spoken = {"source_lang": languages[0], "target_lang": languages[1], **place.spoken}
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


def files_of(kind: str, folders: Iterable[str], languages: tuple[Any, Any]) -> list[str]:
    """Files of this kind in the folders, each content once. ``languages``: source and target; a
    file that names the target is left out where one names the source."""
    files: list[str] = []
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        names = [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in PATTERNS[kind])]
        for source, target in (("source", "target"), languages):
            word = re.compile(rf"\b{re.escape(str(source))}\b")
            of_target = {word.sub(str(target), name) for name in names if word.search(name)}
            names = [name for name in names if name not in of_target or word.search(name)]
        for path in (os.path.join(folder, name) for name in names):
            known = any(filecmp.cmp(path, other, shallow=False) for other in files)
            if os.path.isfile(path) and not known:
                files.append(path)
    return files


def _completed(
    chosen: dict[str, Any], folders: list[str], loaded: Loaded, languages: tuple[str, str]
) -> dict[str, Any]:
    """fairseq's flags for the subword model, with the file that the folders hold, if none was named
    or it has moved since training. ``chosen``: flags so far; {} for whatever is there."""
    marks = next(filter(None, (marked(words.symbols) for words in loaded.dictionaries)), None)
    kinds = [chosen["bpe"]] if chosen else [marks[0]] if marks else ["subword_nmt", "sentencepiece"]
    named = chosen.get(FLAGS.get(kinds[0], ""))
    if kinds[0] not in FLAGS or (named is not None and os.path.isfile(str(named))):
        return chosen
    files = [(kind, path) for kind in kinds for path in files_of(kind, folders, languages)]
    if len(files) == 1:
        ((kind, path),) = files
        return {**chosen, "bpe": kind, FLAGS[kind]: path}
    remedy, places = "name its file with --bpe-codes", " or ".join(map(os.path.realpath, folders))
    if files:
        said = f"there are several subword models ({', '.join(path for _, path in files)})"
    elif chosen:
        said = f"{kinds[0]}'s file {named or ''} is not there, nor one in {places}"
    elif marks:
        said = f"the dictionary is of subwords ({marks[1]!r}), and no subword model is in {places}"
        remedy += ", or give --bpe none for text that is split already"
    else:
        return {}
    raise UsageError("--bpe", said, remedy)
