"""Which tokenizer and BPE: as asked for, by the checkpoint's settings, or by the folders."""

import functools
import os
from collections.abc import Callable
from typing import Any

from omegaconf import OmegaConf

from fairseq_specdec.errors import UsageError
from fairseq_specdec.families.subwords import FLAGS

from .loading import Loaded, Place
from .subwords import completed, kind_of_file
from .text import TextCodec

Choice = str | dict[str, Any] | None


def settings_in(saved: Any, kind: str) -> dict[str, Any]:
    """fairseq's flags for the ``tokenizer`` or ``bpe`` that a checkpoint was trained with."""
    # omegaconf 2.0 raises for a key that a configuration does not have
    part = saved[kind] if saved is not None and kind in saved else None
    if not part:
        return {}
    if isinstance(part, str):
        return {kind: part}
    plain: Any = OmegaConf.to_container(part) if OmegaConf.is_config(part) else dict(part)
    choice = plain.pop("_name", None)
    given = {key: value for key, value in plain.items() if value not in (None, "???")}
    return dict(given, **{kind: choice}) if choice else {}


def choose_codec(
    loaded: Loaded, place: Place, tokenizer: Choice, bpe: Choice, bpe_codes: str | None
) -> TextCodec:
    """The codec that ``SpeculativeTranslator.from_pretrained``'s arguments ask for."""
    cfg = loaded.task.cfg
    beside = [os.path.dirname(os.path.abspath(path)) for path in place.verifiers]
    look = functools.partial(
        completed,
        folders=[cfg.data, *beside],
        dictionaries=loaded.dictionaries,
        languages=(cfg.source_lang, cfg.target_lang),
    )
    subwords = _subwords(loaded.saved, bpe, bpe_codes, look)
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
    saved: Any, bpe: Choice, bpe_codes: str | None, look: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """fairseq's flags for the subword model. ``look``: adds a file that was not named, or has moved
    since training."""
    if bpe_codes is not None:
        if not isinstance(bpe_codes, (str, os.PathLike)):
            raise TypeError(f"bpe_codes: expected a path, got {bpe_codes!r}")
        bpe_codes = os.fspath(bpe_codes)
        kind = kind_of_file(bpe_codes) if bpe == "auto" else bpe
        if not isinstance(kind, str) or kind not in FLAGS:
            raise UsageError("--bpe-codes", f"--bpe is {bpe!r}", "leave one of them out")
        return {"bpe": kind, FLAGS[kind]: bpe_codes}
    if bpe == "auto":
        return look(settings_in(saved, "bpe"))
    chosen = _named("bpe", bpe)
    flag = FLAGS.get(str(chosen.get("bpe")))
    return chosen if flag is None or flag in chosen else look(chosen)


def _named(kind: str, choice: Choice) -> dict[str, Any]:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {kind: choice}
    if not isinstance(choice, dict) or kind not in choice:
        raise UsageError(
            f"--{kind} {choice!r}", f"give a name, or a dictionary with {kind!r} in it"
        )
    return dict(choice)
