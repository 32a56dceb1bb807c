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
    """fairseq's flags for the subword model that lies in one of these folders; {} for none."""
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
    lying = bpe_in([cfg.data, *folders])
    if bpe_codes is not None:
        if bpe not in ("auto", "subword_nmt"):
            raise ValueError(f"bpe_codes: bpe is {bpe!r}; leave one of them out")
        subwords: Dict[str, Any] = {"bpe": "subword_nmt", "bpe_codes": bpe_codes}
    elif bpe == "auto":
        subwords = settings_in(loaded.saved, "bpe") or lying
    else:
        subwords = _named("bpe", bpe)
    # Where only the kind is known, or a file that has moved, its file may lie beside the others.
    if bpe_codes is None and subwords.get("bpe") == lying.get("bpe"):
        kept = {key: value for key, value in subwords.items() if not _lost(key, value, lying)}
        subwords = dict(lying, **kept)
    if tokenizer == "auto":
        speaking = settings_in(loaded.saved, "tokenizer")
        if not speaking and subwords.get("bpe") == "subword_nmt":
            speaking = {"tokenizer": "moses"}
    else:
        speaking = _named("tokenizer", tokenizer)
    spoken = dict({"source_lang": cfg.source_lang, "target_lang": cfg.target_lang}, **place.spoken)
    languages = [spoken["source_lang"], spoken["target_lang"]]
    dictionaries = (loaded.task.source_dictionary, loaded.task.target_dictionary)
    return TextCodec(speaking, subwords, languages, *dictionaries)


def _lost(key: str, value: Any, lying: Dict[str, str]) -> bool:
    """Whether this flag names the file that lies there too, and it is gone from where it was."""
    return key in lying and key != "bpe" and not os.path.isfile(str(value))


def _named(kind: str, choice: Choice) -> Dict[str, Any]:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {kind: choice}
    if not isinstance(choice, dict) or kind not in choice:
        raise ValueError(f"{kind} {choice!r}: give a name, or a dictionary with {kind!r} in it")
    return dict(choice)
