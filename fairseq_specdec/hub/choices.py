"""Which tokenizer and BPE: as asked for, as the checkpoint says, or as the folders tell."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Union

from omegaconf import OmegaConf

from .loading import Loaded, Place
from .text import TextCodec

Choice = Union[str, Dict[str, Any], None]

# Files that fairseq's own hub and this project's data folders keep subword models in.
BPE_FILES = {
    "codes": ("subword_nmt", "bpe_codes"),
    "bpecodes": ("subword_nmt", "bpe_codes"),
    "code": ("subword_nmt", "bpe_codes"),
    "bpe.codes": ("subword_nmt", "bpe_codes"),
    "sentencepiece.bpe.model": ("sentencepiece", "sentencepiece_model"),
}


def bpe_in(folders: List[str]) -> Dict[str, str]:
    """fairseq's flags for the subword model in one of these folders; {} for none."""
    for folder in folders:
        for file, (name, flag) in BPE_FILES.items():
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                return {"bpe": name, flag: path}
    return {}


def settings_in(saved: Any, kind: str) -> Dict[str, Any]:
    """fairseq's flags for the ``tokenizer`` or ``bpe`` that a checkpoint was trained with.

    Args:
        saved: the checkpoint's configuration, or None.
        kind: ``tokenizer`` or ``bpe``.
    """
    part = None if saved is None else saved.get(kind)
    if not part:
        return {}
    if isinstance(part, str):
        return {kind: part}
    plain: Any = OmegaConf.to_container(part) if OmegaConf.is_config(part) else dict(part)
    choice = plain.pop("_name", None)
    found = {key: value for key, value in plain.items() if value not in (None, "???")}
    return dict(found, **{kind: choice}) if choice else {}


def choose_codec(
    loaded: Loaded, place: Place, tokenizer: Choice, bpe: Choice, bpe_codes: Optional[str]
) -> TextCodec:
    """The codec that ``SpeculativeTranslator.from_pretrained``'s arguments ask for.

    Raises:
        ValueError: arguments that contradict one another, or that fairseq cannot honour.
    """
    cfg = loaded.task.cfg
    folders = [os.path.dirname(os.path.abspath(path)) for path in place.verifiers]
    subwords = _subwords(loaded.saved, bpe_in([cfg.data, *folders]), bpe, bpe_codes)
    if tokenizer == "auto":
        speaking = settings_in(loaded.saved, "tokenizer")
        if not speaking and subwords.get("bpe") == "subword_nmt":
            speaking = {"tokenizer": "moses"}
    else:
        speaking = _named("tokenizer", tokenizer)
    spoken = dict({"source_lang": cfg.source_lang, "target_lang": cfg.target_lang}, **place.spoken)
    languages = [spoken["source_lang"], spoken["target_lang"]]
    return TextCodec(speaking, subwords, languages, *loaded.dictionaries)


def _subwords(
    saved: Any, present: Dict[str, str], bpe: Choice, bpe_codes: Optional[str]
) -> Dict[str, Any]:
    """fairseq's flags for the subword model.

    Args:
        saved: the checkpoint's configuration, or None.
        present: flags for the one in the folders, from ``bpe_in``.
        bpe, bpe_codes: as asked for.

    Raises:
        ValueError: they contradict one another.
    """
    if bpe_codes is not None:
        if bpe not in ("auto", "subword_nmt"):
            raise ValueError(f"bpe_codes: bpe is {bpe!r}; leave one of them out")
        return {"bpe": "subword_nmt", "bpe_codes": bpe_codes}
    if bpe == "auto":
        chosen = settings_in(saved, "bpe") or present
    else:
        chosen = _named("bpe", bpe)
    if chosen.get("bpe") != present.get("bpe"):
        return chosen
    # Of the same kind: files that are not named, or have moved, are taken from the folders.
    kept = {key: value for key, value in chosen.items() if not _moved(key, value, present)}
    return dict(present, **kept)


def _moved(key: str, value: Any, present: Dict[str, str]) -> bool:
    """Whether this flag names a file that is not there, and the folders hold one of its kind."""
    return key in present and key != "bpe" and not os.path.isfile(str(value))


def _named(kind: str, choice: Choice) -> Dict[str, Any]:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {kind: choice}
    if not isinstance(choice, dict) or kind not in choice:
        raise ValueError(f"{kind} {choice!r}: give a name, or a dictionary with {kind!r} in it")
    return dict(choice)
