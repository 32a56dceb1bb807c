"""Plain text to the tokens of a converted model and back, as its own tokenizer does it."""

import functools
import importlib
import os
import re
from collections.abc import Callable
from typing import Any

from fairseq.data import Dictionary

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.contents import check_content

from .described import Described
from .text import TextCodec, built, is_visible

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


class ConvertedCodec(TextCodec):
    """The tokenizer of a model of transformers; equal to it on every text."""

    def __init__(self, described: Described, kind: str, dictionaries: Dictionaries) -> None:
        super().__init__({}, {}, described.languages, *dictionaries)
        description = described.description
        self.bpe_name = kind
        # With clean_up a later token can change the text before it.
        self.grows = kind == "sentencepiece" and not description["clean_up"]
        self.start, self.first = (
            None if word is None else self.tgt_dict.index(word)
            for word in (described.start, described.first)
        )
        self._clean_up = description["clean_up"]
        self._hidden = {word for word, _ in description["special"][1].values()}
        self._hidden |= {"<s>", "<pad>", "</s>", "<unk>", *description["languages"].values()}
        self._around = described.source()
        made = {"sentencepiece": _pieces, "gpt2": _bytes}.get(kind, _fast)
        self._read, self._text = made(described, dictionaries, 0)
        self._read_target = functools.lru_cache(1)(  # once a text has a prefix
            lambda: made(described, (self.tgt_dict, self.tgt_dict), 1)[0]
        )

    def encode(self, text: str) -> list[int]:
        if not is_visible(text):
            return []
        text = text.encode("utf-8", "replace").decode("utf-8")  # of half a pair, as without a model
        ids: list[int] = []
        for word in self._around:
            ids += self._read(text) if word == "{text}" else [self.src_dict.index(word)]
        return ids

    def encode_target(self, text: str) -> list[int]:
        ids = self._read_target()(text.encode("utf-8", "replace").decode("utf-8"))
        return ids if is_visible(text) else []

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
    tokenizers = needed("tokenizers", path)
    check_content(path, "a tokenizer")
    try:
        model = tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # tokenizers raises bare ones
        problem = f"is no tokenizer ({str(error)[:100]})"
        raise UsageError(path, problem, "convert it again") from error
    index = dictionaries[1].index
    return (
        lambda text: list(model.encode(text, add_special_tokens=False).ids),
        lambda words: str(model.decode(list(map(index, words)))),
    )


def needed(module: str, path: str) -> Any:
    """A module of the extra ``hf``, which reads a file."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        remedy = "pip install 'fairseq-specdec[hf]'"
        raise UsageError(path, f"reading it needs {module}", remedy) from error


def open_sentencepiece(path: str) -> Any:
    """A model of SentencePiece."""
    sentencepiece = needed("sentencepiece", path)
    check_content(path, "a sentencepiece model")
    try:
        return sentencepiece.SentencePieceProcessor(model_file=path)
    except (RuntimeError, OSError, TypeError) as error:
        raise UsageError(path, "is no sentencepiece model", "copy it again") from error


def choose(described: Described, bpe: object, dictionaries: Dictionaries) -> ConvertedCodec:
    """The codec of a converted model. ``bpe``: ``auto`` for what transformers uses; or the name of
    a kind of which the folder has the files."""
    kinds = [str(described.description["kind"])]
    for name, kind in _FILES.items():
        if os.path.isfile(os.path.join(described.folder, name)) and kind not in kinds:
            kinds.append(kind)
    chosen = kinds[0] if bpe == "auto" else str(bpe)
    if chosen not in kinds:
        raise UsageError(f"--bpe {bpe!r}", f"a converted model has {' or '.join(kinds)}")
    return ConvertedCodec(described, chosen, dictionaries)


def codec_of(described: Described) -> ConvertedCodec:
    """The codec of a folder, with its own dictionaries, that prepares text for fairseq's commands.
    Raises ValueError: no task of fairseq makes the model's sources."""
    words, remedy = described.description["source"], "decode it from Python or with specdec-serve"
    if described.description["languages"] and "-" in "".join(described.languages):
        names = " and ".join(described.languages)
        why = f"fairseq's tasks split pairs of languages at hyphens, as in {names}"
        raise UsageError(described.folder, why, remedy)
    if described.start is None and words[0] == "{text}" and words[-1] == "{lang}":
        why = "its sources end with their language (legacy_behaviour), those of the task begin so"
        raise UsageError(described.folder, why, remedy)
    files = [os.path.join(described.folder, f"dict.{n}.txt") for n in described.dictionaries]
    return choose(described, "auto", (Dictionary.load(files[0]), Dictionary.load(files[1])))
