"""Write a folder that fairseq, and ``SpeculativeTranslator.from_pretrained``, decode from."""

import os
import shutil
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.data import Dictionary

from fairseq_specdec.checkpoints.content import UNTRAINED, check_file
from fairseq_specdec.drafting.vocabulary import write_list
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub.converted import DESCRIPTION, VERIFIER, choose, describe, nearest
from fairseq_specdec.io.atomic import replacing, write_json, write_text
from fairseq_specdec.io.contents import check_content

from .commands import commands, task_settings
from .families import LOADERS
from .folder import ModelFolder
from .loader import Loader
from .vocabulary import word

Pair = Sequence[str | None]


def load(path: str) -> Loader:
    """Read a model folder of transformers. Raises UsageError: the folder, or a part of its model,
    is of a kind that is not known; by name."""
    folder = ModelFolder(path)
    kind = folder.json("config.json").get("model_type")
    if kind not in LOADERS:
        remedy = f"there are loaders for {', '.join(sorted(LOADERS))}"
        raise UsageError(f"{path}/config.json", f"model_type is {kind!r}", remedy)
    return LOADERS[kind](folder)


def convert(
    path: str,
    out: str,
    source: str | None,
    target: str | None,
    force: bool,
    text: str | None = None,
) -> str:
    """Convert a folder. ``source``, ``target``: languages that the printed commands name; a model
    of one pair's dictionaries have these names. ``text``: file whose most frequent tokens of the
    target language are listed. Returns the commands to decode with."""
    if os.path.realpath(out) == os.path.realpath(path):
        raise UsageError(f"--out {out}", "is the folder to convert", "name another one")
    if os.path.isdir(out) and os.listdir(out) and not force:
        raise UsageError(f"--out {out}", "holds something already", "--force writes into it")
    converted = load(path)
    folder, languages = converted.folder, converted.vocabularies[0].languages
    for flag, code in (("--source-lang", source), ("--target-lang", target)):
        if code is not None and languages and code not in languages:
            raise UsageError(f"{flag} {code}", nearest(code, languages))
    if text is not None:
        check_file("--vocabulary-text", text)
        check_content(text, "text")
        if languages and target is None:
            raise UsageError("--vocabulary-text", "needs its language", "name --target-lang")
    pair: Pair = (source, target) if languages else _pair(folder, source, target)
    words = [words_of(converted, side) for side in (0, 1)]
    os.makedirs(out, exist_ok=True)
    names = _write_dictionaries(words, languages, out, pair)
    for there, here in converted.text.files.items():
        shutil.copyfile(folder.file(here), os.path.join(out, there))
    _write_checkpoint(converted, os.path.join(out, VERIFIER), pair)
    cleans = folder.json("tokenizer_config.json").get("clean_up_tokenization_spaces")
    description = {"dictionaries": names, "pair": list(pair), "clean_up": bool(cleans)}
    description.update(_description(converted, words[1]))
    write_json(os.path.join(out, DESCRIPTION), description)
    listed = None if text is None else _write_list(out, text, pair, min(languages, default=None))
    return commands(converted, out, pair, listed)


def _write_list(out: str, text: str, pair: Pair, any_source: str | None) -> str:
    """List a text's most frequent tokens; returns the file."""
    described = describe([os.path.join(out, VERIFIER)], pair[0] or any_source, pair[1])
    assert described is not None
    target = Dictionary.load(os.path.join(out, f"dict.{described.dictionaries[1]}.txt"))
    read = choose(described, "auto", (target, target)).encode_target
    counts: Counter[int] = Counter()
    with open(text, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            counts.update(read(line))
    path = os.path.join(out, f"vocabulary.{pair[1]}.txt")
    write_list(path, target, counts)
    return path


def _pair(folder: ModelFolder, source: str | None, target: str | None) -> Pair:
    """Names of a pair's languages: as asked for, as its tokenizer says, or source and target."""
    settings = folder.json("tokenizer_config.json")
    names = []
    for asked, usual in ((source, "source"), (target, "target")):
        name = asked or settings.get(f"{usual}_lang") or usual
        sound = isinstance(name, str) and os.path.basename(name) == name and "-" not in name
        names.append(name if sound else usual)
    return names


def words_of(converted: Loader, side: int) -> list[str]:
    """The dictionary of one side, by fairseq's index."""
    vocabulary, languages = converted.vocabularies[side], converted.language_words
    words = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    for i in converted.orders[side][4:]:
        token = vocabulary.tokens.get(i)
        if token is None:
            each = f"madeupword{i}"
        elif token in languages:
            each = languages[token]
        elif converted.text.byte_level:
            each = token if token in vocabulary.special else str(i)
        else:
            each = word(token, i)
        if each in words:
            both = f"the tokens {words[each]} and {len(words)} of the vocabulary are both"
            raise UsageError("", f"{both} {each!r}")
        words[each] = len(words)
    return list(words)


def _write_dictionaries(words: list[list[str]], codes: Any, out: str, pair: Pair) -> list[Any]:
    """dict.NAME.txt of both sides, or one of all languages; returns their names."""
    names = ["all"] if codes else list(pair)
    for name, each in zip(names, words):
        text = "".join(f"{entry} 1\n" for entry in each[4:])
        write_text(os.path.join(out, f"dict.{name}.txt"), text)
    for code in codes:  # fairseq's tasks read one for each language
        link = os.path.join(out, f"dict.{code}.txt")
        if not os.path.lexists(link):
            os.symlink("dict.all.txt", link)
    return [names[0], names[-1]]


def _write_checkpoint(converted: Loader, path: str, pair: Pair) -> None:
    task = task_settings(converted, pair)
    # As fairseq-train writes them: it reads flat "args" through hydra, with warnings and slowly.
    settings = {
        "model": Namespace(_name=converted.arch, arch=converted.arch, **converted.model),
        "task": Namespace(_name=task["task"], **task),
    }
    weights = {name: tensor.contiguous() for name, tensor in converted.out.items()}
    with replacing(path, "wb") as stream:
        torch.save({**UNTRAINED, "args": None, "cfg": settings, "model": weights}, stream)


def _description(converted: Loader, target_words: list[str]) -> dict[str, Any]:
    """What ``hub.converted`` reads, but for the names of a pair."""
    text, vocabularies, orders = converted.text, converted.vocabularies, converted.orders
    kind, first, codes = text.kind, converted.generation.forced_first, vocabularies[0].languages
    words = converted.language_words
    if kind == "tokenizers" and orders[0] != list(range(len(orders[0]))):
        kind = "gpt2" if text.byte_level else "sentencepiece"
    renamed = [
        {t: word(t, i) for i, t in each.tokens.items() if word(t, i) != t} for each in vocabularies
    ]
    return {
        "format": 1,
        "family": converted.config.values["model_type"],
        "kind": kind,
        "languages": {code: words[token] for code, token in codes.items()},
        "source": text.source,
        "start": text.start,
        "first": None if first is None else target_words[orders[1].index(first)],
        # as text has them, to their words and whether they take the space before
        "special": [
            {token: [words.get(token, token), strips] for token, strips in each.special.items()}
            for each in vocabularies
        ],
        "renamed": renamed,
        "flags": converted.generation.flags,
    }
