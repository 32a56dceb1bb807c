"""Folders that ``specdec-convert hf`` wrote: how their text is read, as the model's own tokenizer
does it, and how they are decoded."""

import functools
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fairseq.data import Dictionary

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.contents import check_content
from fairseq_specdec.io.flag_values import flag_of

from .text import TextCodec, built, visible

DESCRIPTION = "converted.json"
VERIFIER = "verifier.pt"
FORMAT = 1
LISTED = 12  # languages that a message names
# transformers' clean_up_tokenization, in its order.
_CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip
_MARIAN_CODE = re.compile(r">>.*?<<", re.DOTALL)
PIECES = "sentencepiece.bpe.model"
_FILES = {"encoder.json": "gpt2", "source.spm": "sentencepiece", PIECES: "sentencepiece"}
_SPACE = "\u2581"
Dictionaries = tuple[Dictionary, Dictionary]
"""Of source and target."""
Read = Callable[[str], list[int]]
"""A text to ids of the dictionary."""
Text = Callable[[list[str]], str]
"""Words of the target dictionary to text."""


class Described(NamedTuple):
    """A converted model in one direction."""

    folder: str  # of it
    description: dict[str, Any]  # the content of its file DESCRIPTION
    languages: tuple[str, str]  # source and target, as the user names them

    @property
    def dictionaries(self) -> tuple[str, str]:
        """NAME of the dict.NAME.txt of source and target."""
        source, target = self.description["dictionaries"]
        return source, target

    @property
    def flags(self) -> dict[str, Any]:
        """Decoding flags under which the folder's own settings hold."""
        return dict(self.description["flags"])

    @property
    def command_flags(self) -> dict[str, str]:
        """``flags`` as fairseq's commands have them, with their values."""
        return {flag_of(k): str(value) for k, value in {"max_len_a": 0, **self.flags}.items()}


def is_converted(folder: object) -> bool:
    """Whether a conversion wrote a folder."""
    return os.path.isfile(os.path.join(str(folder), DESCRIPTION))


def nearest(code: str, languages: Iterable[str]) -> str:
    """Why a code is no language of a model, with those that begin alike."""
    known = sorted(languages)
    near = [each for each in known if code and each.lower().startswith(code.lower()[:2])]
    listed = ", ".join((near or known)[:LISTED])
    there = "near it are" if near else f"of the {len(known)} that {DESCRIPTION} lists are"
    return f"none of the model's languages; {there} {listed}"


def describe(
    verifiers: list[str], source_lang: str | None, target_lang: str | None
) -> Described | None:
    """The description in a checkpoint's folder; None where no conversion wrote it.
    ``verifiers``: checkpoints; an ensemble has no description. ``source_lang``, ``target_lang``: as
    asked for."""
    folder = os.path.dirname(os.path.abspath(verifiers[0]))
    if len(verifiers) != 1 or not is_converted(folder):
        return None
    path = os.path.join(folder, DESCRIPTION)
    try:
        with open(path, encoding="utf-8") as stream:
            description = json.load(stream)
        sound = description["format"] == FORMAT
    except (ValueError, RecursionError, TypeError, KeyError):
        sound = False
    if not sound:
        remedy = "convert the model again with this version"
        raise UsageError(path, f"is no description in format {FORMAT}", remedy)
    known, usual = description["languages"], description["pair"]
    asked = {"--source-lang": source_lang, "--target-lang": target_lang}
    codes = []
    for (flag, code), own in zip(asked.items(), usual):
        codes.append(code or own)
        if not known and codes[-1] != own:
            raise UsageError(f"{flag} {code}", f"the model's is {own}")
        if known and codes[-1] is None:
            example = f"name one, such as {min(known)}"
            raise UsageError(flag, f"the model has {len(known)} languages", example)
        if known and codes[-1] not in known:
            raise UsageError(f"{flag} {codes[-1]}", nearest(codes[-1], known))
    left_out = [flag for flag, code in asked.items() if code is None]
    if usual[0] != usual[1] and codes[0] == codes[1] and len(left_out) == 1:
        other = f"left out, it is {codes[0]}, as the other language"
        raise UsageError(left_out[0], other, "name it")
    return Described(folder, description, (codes[0], codes[1]))


# ---- text ----------------------------------------------------------------------------------------


class ConvertedCodec(TextCodec):
    """The tokenizer of a model of transformers; equal to it on every text."""

    def __init__(self, described: Described, kind: str, dictionaries: Dictionaries) -> None:
        super().__init__({}, {}, described.languages, *dictionaries)
        description = described.description
        self.bpe_name = kind
        self._clean_up = description["clean_up"]
        # With clean_up a later token can change the text before it.
        self.grows = kind == "sentencepiece" and not self._clean_up
        source, target = map(description["languages"].get, described.languages)  # their words
        first = description.get("first")
        if description["start"] == "{lang}":
            self.start = None if target is None else self.tgt_dict.index(target)
        elif target is not None:
            first = target
        self.first = None if first is None else self.tgt_dict.index(first)
        self._around = [source or "" if w == "{lang}" else w for w in description["source"]]
        self._hidden = {word for word, _ in description["special"][1].values()}
        self._hidden |= {"<s>", "<pad>", "</s>", "<unk>", *description["languages"].values()}
        made = {"sentencepiece": _pieces, "gpt2": _bytes}.get(kind, _fast)
        self._read, self._text = made(described, dictionaries, 0)
        self._read_target = functools.lru_cache(1)(  # once a text has a prefix
            lambda: made(described, (self.tgt_dict, self.tgt_dict), 1)[0]
        )

    def encode(self, text: str) -> list[int]:
        text = visible(text)
        ids: list[int] = []
        for word in self._around if text else ():
            ids += self._read(text) if word == "{text}" else [self.src_dict.index(word)]
        return ids

    def encode_target(self, text: str) -> list[int]:
        text = visible(text)
        return self._read_target()(text) if text else []

    def prepared(self, text: str) -> str:
        """As fairseq's commands take it, without </s> and language, which the task adds."""
        ids = self.encode(text)
        first = self._around.index("{text}")
        last = len(ids) - (len(self._around) - first - 1)
        kept = [i for i in ids[:first] if i == self.src_dict.bos()] + ids[first:last]
        return " ".join(self.src_dict.symbols[i] for i in kept)

    def words(self, tokens: list[int]) -> list[str]:
        words = [self.tgt_dict.symbols[token] for token in tokens]
        return [word for word in words if word not in self._hidden]

    def join(self, words: list[str]) -> str:
        text = self._text(words)
        if self._clean_up:
            for before, after in _CLEANED:
                text = text.replace(before, after)
        return text


def _slow(
    described: Described, dictionary: Dictionary, side: int, words: Callable[[str], list[str]]
) -> Read:
    """A tokenizer that splits a text at the special tokens in it first, as transformers' tokenizers
    in Python do. ``side``: 0 to encode sources, 1 targets; ``words``: those of the dictionary of a
    part without special tokens."""
    special = dict(described.description["special"][side])
    if described.description["family"] == "marian" and side == 0 and "<pad>" in special:
        # fairseq attends to no padding. The model has no <s>, whose embedding is padding's.
        special["<pad>"] = ["<s>", special["<pad>"][1]]
    longest = sorted(map(re.escape, special), key=len, reverse=True)
    pattern = re.compile("(" + ("|".join(longest) or "(?!)") + ")")

    def ids(text: str) -> list[int]:
        parts = pattern.split(text)
        numbers: list[int] = []
        for part, token in zip(parts[::2], [*parts[1::2], None]):
            word, strips = special.get(token, (None, False))
            part = part.rstrip() if strips else part
            numbers += map(dictionary.index, words(part) if part else ())
            numbers += [] if word is None else [dictionary.index(word)]
        return numbers

    return ids


def _pieces(described: Described, dictionaries: Dictionaries, side: int) -> tuple[Read, Text]:
    """SentencePiece (Kudo and Richardson 2018), one model for both sides or two."""
    two = os.path.isfile(os.path.join(described.folder, "source.spm"))
    file = ("source.spm", "target.spm")[side] if two else PIECES
    model = open_sentencepiece(os.path.join(described.folder, file))
    renamed: list[dict[str, str]] = described.description["renamed"]
    back = {word: token for token, word in renamed[1].items()}
    marian = described.description["family"] == "marian" and side == 0

    def words(text: str) -> list[str]:
        code = _MARIAN_CODE.match(text) if marian else None
        pieces = model.encode(text[code.end() if code else 0 :], out_type=str)
        pieces = [code.group(), *pieces] if code else pieces
        return [renamed[side].get(piece, piece) for piece in pieces]

    def text(words: list[str]) -> str:
        return "".join(back.get(word, word) for word in words).replace(_SPACE, " ").strip()

    return _slow(described, dictionaries[0], side, words), text


def _bytes(described: Described, dictionaries: Dictionaries, side: int) -> tuple[Read, Text]:
    """GPT-2's byte-level BPE (Radford et al. 2019), by fairseq's own class."""
    files = [os.path.join(described.folder, name) for name in ("encoder.json", "vocab.bpe")]
    for file in files:
        check_content(file, "a file of a tokenizer")
    flags = {"bpe": "gpt2", "gpt2_encoder_json": files[0], "gpt2_vocab_bpe": files[1]}
    bpe: Any = built("bpe", flags)

    def text(words: list[str]) -> str:
        return str(bpe.decode(" ".join(filter(str.isdigit, words))))

    return _slow(described, dictionaries[0], side, lambda part: bpe.encode(part).split()), text


def _fast(described: Described, dictionaries: Dictionaries, side: int) -> tuple[Read, Text]:
    """tokenizer.json, by the ``tokenizers`` package; the model's ids are fairseq's."""
    path = os.path.join(described.folder, "tokenizer.json")
    check_content(path, "a tokenizer")
    try:
        model = importlib.import_module("tokenizers").Tokenizer.from_file(path)
    except ImportError as error:
        remedy = "pip install 'fairseq-specdec[hf]'"
        raise UsageError(path, "reading it needs tokenizers", remedy) from error
    except Exception as error:  # tokenizers raises bare ones
        problem = f"is no tokenizer ({str(error)[:100]})"
        raise UsageError(path, problem, "convert it again") from error
    index = dictionaries[1].index
    return (
        lambda text: list(model.encode(text, add_special_tokens=False).ids),
        lambda words: str(model.decode(list(map(index, words)))),
    )


def open_sentencepiece(path: str) -> Any:
    """A model of SentencePiece."""
    bpe: Any = built("bpe", {"bpe": "sentencepiece", "sentencepiece_model": path})
    return bpe.sp


def choose(described: Described, bpe: object, dictionaries: Dictionaries) -> ConvertedCodec:
    """The codec of a converted model. ``bpe``: ``auto`` for what transformers uses; or the name of
    a kind of which the folder has the files."""
    kinds = [described.description["kind"]]
    there = os.listdir(described.folder)
    kinds += sorted({kind for file, kind in _FILES.items() if file in there} - {*kinds})
    chosen = kinds[0] if bpe == "auto" else str(bpe)
    if chosen not in kinds:
        raise UsageError(f"--bpe {bpe!r}", f"a converted model has {' or '.join(kinds)}")
    return ConvertedCodec(described, chosen, dictionaries)


def codec_of(described: Described) -> ConvertedCodec:
    """The codec of a folder, with its own dictionaries, that prepares text for fairseq's commands.
    Raises ValueError: no task of fairseq makes the model's sources."""
    remedy, words = "decode it from Python or with specdec-serve", described.description["source"]
    if described.description["languages"] and "-" in "".join(described.languages):
        names = " and ".join(described.languages)
        why = f"fairseq's tasks split pairs of languages at hyphens, as in {names}"
        raise UsageError(described.folder, why, remedy)
    starts = described.description["start"] == "{lang}"
    if not starts and words[0] == "{text}" and words[-1] == "{lang}":
        why = "its sources end with their language (legacy_behaviour), those of the task begin so"
        raise UsageError(described.folder, why, remedy)
    files = [os.path.join(described.folder, f"dict.{n}.txt") for n in described.dictionaries]
    return choose(described, "auto", (Dictionary.load(files[0]), Dictionary.load(files[1])))
