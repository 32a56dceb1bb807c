"""The tokens of a model by their ids, and which of them are special or languages."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub.converted import open_sentencepiece

from .folder import ModelFolder

# A language's token, of models whose other special tokens are control tokens, as <mask>.
CODE = re.compile(r"__([^\s/,]+)__|([^\s/,<\[]+)")


class Vocabulary(NamedTuple):
    """Of one side of a model."""

    tokens: dict[int, str]  # by id
    # tokens that text is split at and that are not printed; to whether they take the space before
    # them
    special: dict[str, bool]
    languages: dict[str, str]  # code to token


def read_ids(folder: ModelFolder, name: str) -> dict[int, str]:
    """Tokens by id, of a file that maps tokens to ids, as vocab.json."""
    folder.file(name)
    return _by_id(f"{folder.path}/{name}", folder.json(name))


def read_tokenizer(folder: ModelFolder) -> dict[int, str]:
    """Tokens by id, of tokenizer.json without what was added; {} where there is no such file."""
    model = folder.json("tokenizer.json").get("model")
    words = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(words, list):  # Unigram: [token, score], in the order of the ids
        words = {each[0]: i for i, each in enumerate(words) if isinstance(each, list) and each}
    return _by_id(f"{folder.path}/tokenizer.json", words if isinstance(words, dict) else {})


def _by_id(path: str, ids: dict[Any, Any]) -> dict[int, str]:
    tokens: dict[int, str] = {}
    for token, i in ids.items():
        if type(i) is not int or i < 0 or i in tokens or type(token) is not str:
            raise UsageError(path, f"{token!r} has the id {i!r}, or another has it")
        tokens[i] = token
    return tokens


def read_pieces(folder: ModelFolder, name: str) -> list[str]:
    """The pieces of a sentencepiece model."""
    model = open_sentencepiece(folder.file(name))
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def added_tokens(folder: ModelFolder) -> dict[int, dict[str, Any]]:
    """Tokens that were added to a tokenizer, by id: ``content``, ``lstrip``, ``special``."""
    pairs = [(i, {"content": token}) for token, i in folder.json("added_tokens.json").items()]
    pairs += [(t.get("id"), t) for t in folder.json("tokenizer.json").get("added_tokens") or []]
    decoder = folder.json("tokenizer_config.json").get("added_tokens_decoder") or {}
    pairs += [(int(i) if i.isdigit() else -1, token) for i, token in decoder.items()]
    for i, each in pairs:
        sound = isinstance(each, dict) and isinstance(each.get("content"), str)
        if type(i) is not int or i < 0 or not sound:
            raise UsageError(folder.path, f"its tokenizer adds a token of id {i!r}: {each!r}")
    return dict(pairs)


def named_specials(folder: ModelFolder) -> dict[str, bool]:
    """Special tokens that the folder names, in its order; whether they take the space before."""
    special: dict[str, bool] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        for key, value in folder.json(name).items():
            several = key in ("additional_special_tokens", "extra_special_tokens")
            entries = value if several and isinstance(value, list) else [value]
            for each in entries if several or key.endswith("_token") else ():
                parts = each if isinstance(each, dict) else {"content": each}
                content = parts.get("content")
                if isinstance(content, str):
                    special[content] = special.get(content, False) or bool(parts.get("lstrip"))
    return special


def assemble(
    folder: ModelFolder,
    base: dict[int, str],
    usual: Iterable[str],
    after: int | None = None,
    multilingual: bool = False,
) -> Vocabulary:
    """The vocabulary of a tokenizer.

    Args:
        base: tokens by id, without what was added.
        usual: special tokens of the family.
        after: first id of the languages that the folder names without ids; None for the one after
            ``base``.
        multilingual: special tokens that are no control tokens are languages.
    """
    tokens, special = dict(base), {**dict.fromkeys(usual, False), **named_specials(folder)}
    for i, each in added_tokens(folder).items():
        content = each["content"]
        if tokens.setdefault(i, content) != content:
            raise UsageError(folder.path, f"the id {i} is {tokens[i]!r} and {content!r}")
        if each.get("special", True) or content in special:
            special[content] = bool(each.get("lstrip"))
    matches = {token: CODE.fullmatch(token) for token in special if multilingual}
    codes = {token: m[1] or m[2] for token, m in matches.items() if m is not None}
    end, known = max(base) + 1 if after is None else after, set(tokens.values())
    for content in [token for token in codes if token not in known]:
        while end in tokens:
            end += 1
        tokens[end] = content
        known.add(content)
    special = {token: strips for token, strips in special.items() if token in known}
    if "<mask>" in usual and "<mask>" in special:
        special["<mask>"] = True  # transformers' tokenizers say so, not the files
    return Vocabulary(tokens, special, {code: token for token, code in codes.items()})


def word(token: str, i: int) -> str:
    """A token as fairseq's dictionary file can hold it."""
    return f"<token{i}>" if not token or token.split() != [token] else token
