"""A folder that ``specdec-convert hf`` wrote: how its text is read, and how it is decoded."""

import difflib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import flag_of

DESCRIPTION = "converted.json"
VERIFIER = "verifier.pt"
FORMAT = 1
LISTED = 12  # languages that a message names
_KINDS: dict[str, type] = {
    "family": str, "kind": str, "dictionaries": list, "pair": list, "languages": dict,
    "source": list, "start": str, "special": list, "renamed": list, "clean_up": bool,
    "flags": dict,
}  # fmt: skip


class Described(NamedTuple):
    """A converted model in one direction."""

    folder: str  # of it
    description: dict[str, Any]  # the content of its file DESCRIPTION
    languages: tuple[str, str]  # source and target, as the user names them

    @property
    def dictionaries(self) -> tuple[str, str]:
        """NAME of the dict.NAME.txt of source and target."""
        source, target = self.description["dictionaries"]
        return str(source), str(target)

    @property
    def flags(self) -> dict[str, Any]:
        """Decoding flags under which the folder's own settings hold."""
        return dict(self.description["flags"])

    @property
    def command_flags(self) -> dict[str, str]:
        """``flags`` as fairseq's commands have them, with their values."""
        given = {"max_len_a": 0, **self.flags}
        return {flag_of(name): str(value) for name, value in given.items()}

    def source(self) -> list[str]:
        """Words around a source: ``{text}`` stands for the text."""
        lang = self.description["languages"].get(self.languages[0], "")
        return [lang if each == "{lang}" else each for each in self.description["source"]]

    @property
    def start(self) -> str | None:
        """The word that decoding starts with, if it is not </s>."""
        if self.description["start"] != "{lang}":
            return None
        word: str = self.description["languages"][self.languages[1]]
        return word

    @property
    def first(self) -> str | None:
        """The word that every output begins with, if there is one."""
        if self.description["languages"] and self.description["start"] != "{lang}":
            word: str = self.description["languages"][self.languages[1]]
            return word
        return self.description.get("first")


def is_converted(folder: Any) -> bool:
    """Whether a conversion wrote a folder."""
    return os.path.isfile(os.path.join(str(folder), DESCRIPTION))


def nearest(code: str, languages: Iterable[str]) -> str:
    """Why a code is no language of a model, with those that are near to it."""
    known = sorted(languages)
    lower = {each.lower(): each for each in known}
    code = code.lower()
    similar = [each for each in lower if code and each.startswith(code)]
    if not similar:
        similar = [each for each in lower if code and each.startswith(code[:2])]
        similar += difflib.get_close_matches(code, lower, 3, 0.5)
    near = [lower[each] for each in dict.fromkeys(similar)]
    if near:
        return f"none of the model's languages; near it are {', '.join(near[:5])}"
    rest = len(known) - LISTED
    more = f" and {rest} more, which {DESCRIPTION} lists" if rest > 0 else ""
    return f"none of the model's languages; there are {', '.join(known[:LISTED])}{more}"


def describe(
    verifiers: list[str], source_lang: str | None, target_lang: str | None
) -> Described | None:
    """The description in a checkpoint's folder; None where no conversion wrote it.
    ``verifiers``: checkpoints; an ensemble has no description. ``source_lang``, ``target_lang``: as
    asked for."""
    folder = os.path.dirname(os.path.abspath(verifiers[0]))
    if len(verifiers) != 1 or not is_converted(folder):
        return None
    description = _read(os.path.join(folder, DESCRIPTION))
    languages = []
    asked = (("source_lang", source_lang), ("target_lang", target_lang))
    for side, (argument, code) in enumerate(asked):
        usual = description["pair"][side]
        languages.append(_language(argument, code, usual, description["languages"]))
    if description["pair"][0] != description["pair"][1]:
        _check_two(asked, languages)
    return Described(folder, description, (languages[0], languages[1]))


def _language(argument: str, code: str | None, usual: Any, known: dict[str, str]) -> str:
    if not known:
        if code not in (None, usual):
            raise UsageError(f"{flag_of(argument)} {code}", f"the model's is {usual}")
        return str(usual)
    code = usual if code is None else code
    if code is None:
        raise UsageError(
            flag_of(argument),
            f"the model has {len(known)} languages",
            f"name one, such as {sorted(known)[0]}",
        )
    if code not in known:
        raise UsageError(f"{flag_of(argument)} {code}", nearest(code, known))
    return code


def _check_two(asked: Sequence[tuple[str, str | None]], languages: Sequence[str]) -> None:
    """Refuse one language that was asked for beside the same one, which was not."""
    left_out = [argument for argument, code in asked if code is None]
    if languages[0] == languages[1] and len(left_out) == 1:
        raise UsageError(
            flag_of(left_out[0]),
            f"left out, it is {languages[0]}, as the other language",
            "name it",
        )


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as stream:
            description = json.load(stream)
    except (ValueError, RecursionError) as error:
        raise UsageError(path, "is no JSON file", "convert the model again") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise UsageError(
            path, f"is of another format than {FORMAT}", "convert the model again with this version"
        )
    for name, kind in _KINDS.items():
        pairs = name in ("dictionaries", "pair", "special", "renamed")
        if not isinstance(description.get(name), kind) or (pairs and len(description[name]) != 2):
            raise UsageError(path, f"its entry {name} is damaged", "convert the model again")
    return description
