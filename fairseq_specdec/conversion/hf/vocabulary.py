"""The tokens of a model by their ids, and which of them are special or languages."""

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Pattern

from fairseq_specdec.hub.converted_text import open_sentencepiece

from .folder import ModelFolder

# A language's token, as NLLB-200, mBART and M2M-100 write it.
CODE = re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})|([a-z]{2}_[A-Z]{2})")
# Of models whose other special tokens are control tokens, as <mask>: one that was added, as gsw-CH.
ANY_CODE = re.compile(r"__([^\s/,]+)__|([^\s/,<\[]+)")


class Vocabulary(NamedTuple):
    """Of one side of a model."""

    tokens: Dict[int, str]  # by id
    # tokens that text is split at and that are not printed; to whether they take the space before
    # them
    special: Dict[str, bool]
    languages: Dict[str, str]  # code to token

    def ids(self) -> Dict[str, int]:
        """Tokens to ids."""
        return {token: i for i, token in self.tokens.items()}


def read_ids(folder: ModelFolder, name: str) -> Dict[int, str]:
    """Tokens by id, of a file that maps tokens to ids, as vocab.json."""
    if not folder.has(name):
        raise ValueError(
            f"{folder.path}: no {name} in it; copy the tokenizer's files of the model too"
        )
    tokens: Dict[int, str] = {}
    for token, i in folder.json(name).items():
        if type(i) is not int or i < 0 or i in tokens:
            raise ValueError(f"{folder.path}/{name}: {token!r} has the id {i!r}, or another has it")
        tokens[i] = token
    return tokens


def read_tokenizer(folder: ModelFolder) -> Dict[int, str]:
    """Tokens by id, of tokenizer.json without what was added; {} where there is no such file."""
    model = folder.json("tokenizer.json").get("model")
    words = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(words, list):  # Unigram: [token, score], in the order of the ids
        words = {each[0]: i for i, each in enumerate(words) if isinstance(each, list) and each}
    tokens = {i: token for token, i in words.items()} if isinstance(words, dict) else {}
    if not all(type(i) is int and i >= 0 and type(token) is str for i, token in tokens.items()):
        raise ValueError(f"{folder.path}/tokenizer.json: its vocabulary is damaged; copy it again")
    return tokens


def read_pieces(folder: ModelFolder, name: str) -> List[str]:
    """The pieces of a sentencepiece model."""
    if not folder.has(name):
        raise ValueError(
            f"{folder.path}: no {name} in it; copy the tokenizer's files of the model too"
        )
    path = folder.file(name)
    model = open_sentencepiece(path)
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def added_tokens(folder: ModelFolder) -> Dict[int, Dict[str, Any]]:
    """Tokens that were added to a tokenizer, by id: ``content``, ``lstrip``, ``special``."""
    added: Dict[int, Dict[str, Any]] = {}
    for token, i in folder.json("added_tokens.json").items():
        added[i] = {"content": token, "special": True}
    for each in folder.json("tokenizer.json").get("added_tokens") or []:
        added[each.get("id")] = each
    decoder = folder.json("tokenizer_config.json").get("added_tokens_decoder") or {}
    for number, each in decoder.items():
        added[int(number) if str(number).isdigit() else -1] = each
    for i, each in added.items():
        sound = isinstance(each, dict) and isinstance(each.get("content"), str)
        if type(i) is not int or i < 0 or not sound:
            raise ValueError(f"{folder.path}: its tokenizer adds a token of id {i!r}: {each!r}")
    return added


def named_specials(folder: ModelFolder) -> Dict[str, bool]:
    """Special tokens that the folder names, in its order; whether they take the space before."""
    special: Dict[str, bool] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        for key, value in folder.json(name).items():
            several = ("additional_special_tokens", "extra_special_tokens")
            if key in several and isinstance(value, list):
                entries = value
            else:
                entries = [value] if key.endswith("_token") else []
            for each in entries:
                content = each.get("content") if isinstance(each, dict) else each
                if isinstance(content, str):
                    strips = bool(isinstance(each, dict) and each.get("lstrip"))
                    special[content] = special.get(content, False) or strips
    return special


def assemble(
    folder: ModelFolder,
    base: Dict[int, str],
    usual: Iterable[str],
    after: Optional[int] = None,
    codes: Pattern[str] = CODE,
) -> Vocabulary:
    """The vocabulary of a tokenizer.

    Args:
        base: tokens by id, without what was added.
        usual: special tokens of the family.
        after: first id of the languages that the folder names without ids; None for the one after
            ``base``.
        codes: special tokens that are languages.
    """
    tokens, special = dict(base), {**dict.fromkeys(usual, False), **named_specials(folder)}
    for i, each in added_tokens(folder).items():
        content = each["content"]
        if tokens.setdefault(i, content) != content:
            raise ValueError(f"{folder.path}: the id {i} is {tokens[i]!r} and {content!r}")
        if each.get("special", True) or content in special:
            special[content] = bool(each.get("lstrip"))
    known = set(tokens.values())
    end = max(base) + 1 if after is None else after
    for content in [token for token in special if token not in known and codes.fullmatch(token)]:
        while end in tokens:
            end += 1
        tokens[end] = content
    special = {token: strips for token, strips in special.items() if token in set(tokens.values())}
    return Vocabulary(tokens, special, languages_of(special, codes))


def languages_of(special: Iterable[str], codes: Pattern[str] = CODE) -> Dict[str, str]:
    """Language codes to their tokens, of those that match ``codes``."""
    tokens_of_codes = {}
    for token in special:
        match = codes.fullmatch(token)
        if match is not None:
            tokens_of_codes[next(filter(None, match.groups()))] = token
    return tokens_of_codes


def word(token: str, i: int) -> str:
    """A token as fairseq's dictionary file can hold it."""
    return f"<token{i}>" if not token or token.split() != [token] else token
