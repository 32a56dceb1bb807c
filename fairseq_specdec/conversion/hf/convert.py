"""Write a folder that fairseq, and ``SpeculativeTranslator.from_pretrained``, decode from."""

import logging
import os
import shutil
from argparse import Namespace
from typing import Any

import torch

from fairseq_specdec.checkpoints.content import UNTRAINED
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub.described import DESCRIPTION, VERIFIER, nearest
from fairseq_specdec.io.atomic import replacing, write_json, write_text
from fairseq_specdec.io.provenance import sha256

from .commands import commands
from .families import LOADERS, Converted
from .folder import ModelFolder
from .task import task_settings
from .vocabulary import Vocabulary, word

logger = logging.getLogger(__name__)


def load(path: str) -> Converted:
    """Read a model folder of transformers. Raises ValueError: the folder, or a part of its model,
    is of a kind that is not known; by name."""
    folder = ModelFolder(path)
    config = folder.json("config.json")
    kind = config.get("model_type")
    if kind not in LOADERS:
        raise UsageError(
            f"{path}/config.json",
            f"model_type is {kind!r}",
            f"there are loaders for {', '.join(sorted(LOADERS))}",
        )
    if config.get("auto_map"):
        raise UsageError(
            f"{path}/config.json", "auto_map names code of the folder, which is not run"
        )
    return LOADERS[kind](folder).load()


def convert(path: str, out: str, source: str | None, target: str | None, force: bool) -> str:
    """Convert a folder. ``source``, ``target``: languages that the printed commands name; a model
    of one pair's dictionaries have these names. Returns the commands to decode with."""
    _check_out(path, out, force)
    converted = load(path)
    languages = converted.vocabularies[0].languages
    for flag, code in (("--source-lang", source), ("--target-lang", target)):
        if code is not None and languages and code not in languages:
            raise UsageError(f"{flag} {code}", nearest(code, languages))
    pair = (source, target) if languages else _pair(path, source, target)
    os.makedirs(out, exist_ok=True)
    names = _write_dictionaries(converted, out, pair)
    for there, here in converted.text.files.items():
        shutil.copyfile(ModelFolder(path).file(here), os.path.join(out, there))
    for name, content in converted.text.made.items():
        write_text(os.path.join(out, name), content)
    _write_checkpoint(converted, os.path.join(out, VERIFIER), pair)
    write_json(os.path.join(out, DESCRIPTION), _description(converted, path, names, pair))
    return commands(converted, out, pair)


def _check_out(path: str, out: str, force: bool) -> None:
    if os.path.exists(out) and not os.path.isdir(out):
        raise UsageError(f"--out {out}", "exists and is no folder")
    if os.path.isdir(out) and os.path.realpath(out) == os.path.realpath(path):
        raise UsageError(f"--out {out}", "is the folder to convert", "name another one")
    if os.path.isdir(out) and os.listdir(out) and not force:
        raise UsageError(f"--out {out}", "holds something already", "--force writes into it")


def _pair(path: str, source: str | None, target: str | None) -> tuple[str, str]:
    """Names of a pair's languages: as asked for, as its tokenizer says, or source and target."""
    settings = ModelFolder(path).json("tokenizer_config.json")
    names = []
    for asked, key, usual in ((source, "source_lang", "source"), (target, "target_lang", "target")):
        name = asked or settings.get(key) or usual
        if not isinstance(name, str) or os.path.basename(name) != name or "-" in name:
            name = usual
        names.append(name)
    return names[0], names[1]


def words_of(converted: Converted, side: int) -> list[str]:
    """The dictionary of one side, by fairseq's index."""
    vocabulary, text = converted.vocabularies[side], converted.text
    languages = {token: code for code, token in vocabulary.languages.items()}
    words = ["<s>", "<pad>", "</s>", "<unk>"]
    for i in converted.orders[side][4:]:
        token = vocabulary.tokens.get(i)
        if token is None:
            words.append(f"madeupword{i}")
        elif token in languages:
            words.append(text.language_token.format(languages[token]))
        elif text.byte_level:
            words.append(token if token in vocabulary.special else str(i))
        else:
            words.append(word(token, i))
    seen = {}
    for i, each in enumerate(words):
        if each in seen:
            raise UsageError(
                "", f"the tokens {seen[each]} and {i} of the vocabulary are both {each!r}"
            )
        seen[each] = i
    return words


def _write_dictionaries(converted: Converted, out: str, pair: Any) -> list[str]:
    """dict.NAME.txt of both sides, or one of all languages; returns their names."""
    names = ["all"] if converted.vocabularies[0].languages else list(pair)
    for side, name in enumerate(names):
        lines = [f"{each} 1\n" for each in words_of(converted, side)[4:]]
        write_text(os.path.join(out, f"dict.{name}.txt"), "".join(lines))
    for code in converted.vocabularies[0].languages:  # fairseq's tasks read one for each language
        link = os.path.join(out, f"dict.{code}.txt")
        if not os.path.lexists(link):
            os.symlink("dict.all.txt", link)
    return [names[0], names[-1]]


def _write_checkpoint(converted: Converted, path: str, pair: Any) -> None:
    task = task_settings(converted, pair)
    # As fairseq-train writes them: it reads flat "args" through hydra, with warnings and slowly.
    settings = {
        "model": Namespace(_name=converted.arch, arch=converted.arch, **converted.model),
        "task": Namespace(_name=task["task"], **task),
    }
    state = {
        "args": None,
        "cfg": settings,
        "model": {name: tensor.contiguous() for name, tensor in converted.weights.items()},
        **UNTRAINED,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }
    with replacing(path, "wb") as stream:
        torch.save(state, stream)
    logger.info("%s: %d bytes, sha256 %s", path, os.path.getsize(path), sha256(path))


def _specials(vocabulary: Vocabulary, language_token: str) -> dict[str, Any]:
    """Special tokens, as text has them, to their words and whether they take the space before."""
    languages = {token: code for code, token in vocabulary.languages.items()}
    return {
        token: [language_token.format(languages[token]) if token in languages else token, strips]
        for token, strips in vocabulary.special.items()
    }


def _description(converted: Converted, path: str, names: list[str], pair: Any) -> dict[str, Any]:
    text, generation = converted.text, converted.generation
    tokenizer = ModelFolder(path).json("tokenizer_config.json")
    vocabularies, orders = converted.vocabularies, converted.orders
    kind = text.kind
    if kind == "tokenizers" and orders[0] != list(range(len(orders[0]))):
        kind = "gpt2" if text.byte_level else "sentencepiece"
    renamed = [
        {t: word(t, i) for i, t in each.tokens.items() if word(t, i) != t} for each in vocabularies
    ]
    first = None
    if generation.forced_first is not None:
        first = words_of(converted, 1)[orders[1].index(generation.forced_first)]
    return {
        "format": 1,
        "family": converted.model_type,
        "kind": kind,
        "dictionaries": names,
        "pair": list(pair),
        "languages": {code: text.language_token.format(code) for code in vocabularies[0].languages},
        "source": text.source,
        "start": text.start,
        "first": first,
        "special": [_specials(each, text.language_token) for each in vocabularies],
        "renamed": renamed,
        "clean_up": bool(tokenizer.get("clean_up_tokenization_spaces")),
        "flags": {
            "max_len_b": generation.max_len_b,
            "min_len": generation.min_len,
            "no_repeat_ngram_size": generation.no_repeat_ngram_size,
            "lenpen": generation.lenpen,
        },
        "told_length": generation.length_stated,
    }
