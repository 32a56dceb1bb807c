"""A folder that ``specdec-convert hf`` wrote: how its text is read, and how it is decoded."""

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import flag_of

DESCRIPTION = "converted.json"
VERIFIER = "verifier.pt"
FORMAT = 1
LISTED = 12  # languages that a message names


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
        return {flag_of(k): str(value) for k, value in {"max_len_a": 0, **self.flags}.items()}

    def source(self) -> list[str]:
        """Words around a source: ``{text}`` stands for the text."""
        lang = self.description["languages"].get(self.languages[0], "")
        return [lang if each == "{lang}" else each for each in self.description["source"]]

    @property
    def start(self) -> str | None:
        """The word that decoding starts with, if it is not </s>."""
        return self._target if self.description["start"] == "{lang}" else None

    @property
    def first(self) -> str | None:
        """The word that every output begins with, if there is one."""
        own: str | None = self.description.get("first")
        return own if self.start is not None or self._target is None else self._target

    @property
    def _target(self) -> str | None:
        """The word of the target language; None of a model of one pair."""
        word: str | None = self.description["languages"].get(self.languages[1])
        return word


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
    description = _read(os.path.join(folder, DESCRIPTION))
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
    return description
