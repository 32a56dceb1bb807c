"""Edits that are likely in a source, by the words around them: a file that
``fairseq_specdec.data.edits`` writes, or anybody."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.contents import WrongFileError, check_content

COLUMNS = ("before", "token", "after", "becomes", "share")
"""A file has a header, then one edit per line; tabs between columns, spaces between tokens."""


class Edit(NamedTuple):
    """What a token of the source becomes between others.

    Attributes:
        before, after: tokens around it; both ends of a sentence are </s>.
        token: of the source; </s> for what is inserted before the first.
        becomes: tokens in its place.
        share: of the places like this one where it does, above 0, at most 1.
    """

    before: tuple[int, ...]
    token: int
    after: tuple[int, ...]
    becomes: tuple[int, ...]
    share: float


class EditTable:
    """Edits of a source. Where several fit a place, that with the largest share is made."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        # By token how many tokens around it are compared; by these what it becomes.
        self._shapes: dict[int, list[tuple[int, int]]] = {}
        self._edits: dict[tuple[int, ...], Edit] = {}
        for edit in edits:
            shape = len(edit.before), len(edit.after)
            shapes = self._shapes.setdefault(edit.token, [])
            if shape not in shapes:
                shapes.append(shape)
            key = (shape[0], *edit.before, edit.token, *edit.after)
            if key not in self._edits or self._edits[key].share < edit.share:
                self._edits[key] = edit

    def __len__(self) -> int:
        return len(self._edits)

    def edited(self, source: Sequence[int]) -> list[int]:
        """The likely output. ``source``: the start symbol, the sentence and its </s>."""
        output: list[int] = []
        for place, token in enumerate(source[:-1]):
            output += self._becomes(source, place) if token in self._shapes else (token,)
        return [*output, source[-1]]

    def _becomes(self, source: Sequence[int], place: int) -> Sequence[int]:
        token, share = source[place], 0.0
        becomes: Sequence[int] = (token,)
        for before, after in self._shapes[token]:
            if before <= place and place + after < len(source):
                edit = self._edits.get((before, *source[place - before : place + after + 1]))
                if edit is not None and edit.share > share:
                    becomes, share = edit.becomes, edit.share
        return becomes


def write_edits(edits: Iterable[Edit], dictionary: Any, stream: Any) -> None:
    """The likeliest first. ``dictionary``: of source and target."""
    stream.write("\t".join(COLUMNS) + "\n")
    for edit in sorted(edits, key=lambda each: (-each.share, each)):
        texts = (edit.before, (edit.token,), edit.after, edit.becomes)
        words = (" ".join(map(dictionary.__getitem__, tokens)) for tokens in texts)
        stream.write("\t".join((*words, f"{edit.share:.4g}")) + "\n")


def read_edits(path: str, dictionary: Any) -> EditTable:
    """Edits of a file. ``dictionary``: of source and target.

    Raises:
        ValueError: the file cannot be read, is not of this form, or a token of it is not in the
            dictionary.
    """
    try:
        check_content(path, "a table of edits")
        with open(path, encoding="utf-8", newline="\n") as stream:
            header, *lines = stream.read().split("\n")
    except WrongFileError as error:
        raise UsageError(f"--edits {path}", error.problem, error.remedy) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--edits {path}", "is not text in UTF-8") from error
    except OSError as error:
        raise UsageError(
            f"--edits {path}", error.strerror, "python -m fairseq_specdec.data.edits writes one"
        ) from error
    if header.split("\t") != list(COLUMNS):
        raise UsageError(
            f"--edits {path}",
            f"its first line must be {' '.join(COLUMNS)}, with tabs between",
            "python -m fairseq_specdec.data.edits writes such a file",
        )
    edits = []
    for number, line in enumerate(lines, start=2):
        try:
            edits += [_parsed(line, dictionary)] if line else []
        except ValueError as error:
            raise UsageError(f"--edits {path}, line {number}", error) from error
    return EditTable(edits)


def _parsed(line: str, dictionary: Any) -> Edit:
    """Raises ValueError: what is wrong with the line."""
    columns = line.split("\t")
    if len(columns) != len(COLUMNS):
        raise ValueError(f"has {len(columns)} columns instead of {len(COLUMNS)}, tabs between")
    words = [text.split() for text in columns[:4]]
    for word in itertools.chain(*words):
        if word not in dictionary:
            said = f"'{word}' is not in the model's dictionary"
            raise ValueError(f"{said}; write tokens as its text is binarised")
    before, token, after, becomes = (tuple(map(dictionary.index, each)) for each in words)
    end = dictionary.eos()
    if len(token) != 1:
        raise ValueError(f"'{columns[1]}' is not one token")
    if becomes.count(end) != token.count(end) or (end in token and becomes[0] != end):
        raise ValueError(
            f"'{columns[1]}' cannot become '{columns[3]}': an edit that inserts before a sentence "
            "is of </s> and begins with it; no other has </s>"
        )
    if end in before[1:] or end in after[:-1]:
        raise ValueError("</s> may only be at the ends of a sentence")
    try:
        share = float(columns[4])
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"share '{columns[4]}': must be a number above 0, at most 1")
    return Edit(before, token[0], after, becomes, share)
