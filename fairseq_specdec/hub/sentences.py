"""Texts to sentences, and what is copied around them: pure functions on strings.

A text's parts are strings that make the text when they are joined. The first, the third and so on
are copied; those between them are sentences, which are decoded.
"""

from __future__ import annotations

import itertools
import re
from typing import Callable, List, Union

import sentencex

from .language_codes import language_of
from .text import is_visible

Split = Union[bool, str]
SPLITS = (True, False, "nonewlines")

_LINE_END = re.compile("(\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029])")
# What an item of a list, a heading or a quotation begins with.
_MARKER = re.compile(
    r"\s*(?:(?:[-*+–—#>]+|\(?\d{1,3}[.)]|\(?[a-zA-Z]\)|\[[ xX]\])\s+|[•‣◦▪●・]\s*)*"
)
_CLAUSE_END = re.compile(r"[;:,]\s+|[；：，、؛،]\s*")
_SPACE = re.compile(r"\s+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Written without spaces between sentences.
_SPACELESS = frozenset({"cmn", "ja", "lzh", "wuu", "yue", "zh"})


def sentences_of(text: str, language: str, split: Split = True) -> List[str]:
    """A text's parts.

    Line ends, the white space around sentences, the markers of list items, and what has no letter
    (numbers, rules, emoji) are copied. A line of one sentence is a sentence as a whole, with all
    that is around it.

    Args:
        language: of the text, by any code; an unknown one is split as English is.
        split: at the ends of lines and of sentences; ``nonewlines``: at the latter only; False: not
            at all.
    """
    if not split or not is_visible(text):
        return ["", text, ""]
    parts = [""]
    for number, line in enumerate([text] if split == "nonewlines" else _LINE_END.split(text)):
        if number % 2:
            parts[-1] += line
            continue
        marker = _MARKER.match(line).group()  # type: ignore[union-attr]
        parts[-1] += marker
        for sentence in _of_line(line[len(marker) :], language):
            _extend(parts, _trimmed(sentence))
    single = split == "nonewlines" or not _LINE_END.search(text.strip())
    return ["", text, ""] if single and len(parts) <= 3 else parts


def fitting(parts: List[str], fits: Callable[[str], bool]) -> List[str]:
    """The same text in parts whose sentences fit, as far as clauses and spaces allow. One that does
    not is divided after the comma, semicolon or colon that is nearest to its middle; where it has
    none, at a space."""
    found = [parts[0]]
    for sentence, after in zip(parts[1::2], parts[2::2]):
        _extend(found, _divided(sentence, fits))
        found[-1] += after
    return found


def copied(parts: List[str], source: str, target: str) -> List[str]:
    """What is copied, with a space between sentences of a line or none, as the target language is
    written."""
    before = parts[::2]
    spaced = [language_of(code) not in _SPACELESS for code in (source, target)]
    if spaced[0] == spaced[1]:
        return before
    inner = range(1, len(before) - 1)
    if spaced[1]:
        return [each or " " if i in inner else each for i, each in enumerate(before)]
    blank = [each.isspace() and not _LINE_END.search(each) for each in before]
    return ["" if i in inner and blank[i] else each for i, each in enumerate(before)]


def _of_line(line: str, language: str) -> List[str]:
    """The sentences of a line, with the white space after them."""
    # sentencex stops the program at some white space of several bytes, and refuses surrogates.
    plain = _SURROGATE.sub("x", re.sub(r"\s", " ", line))
    found: List[str] = []
    for each in sentencex.segment(language_of(language), plain):
        if found and not found[-1][-1].isspace() and (found[-1][-1] + each[0]).isascii():
            found[-1] += each  # a name, such as java.util.List
        else:
            found.append(each)
    begins = [0, *itertools.accumulate(map(len, found[:-1]))]
    return [line[begin:end] for begin, end in zip(begins, [*begins[1:], len(line)])]


def _trimmed(sentence: str) -> List[str]:
    """Its parts: a sentence and the white space around it, or what has no letter."""
    if not any(map(str.isalpha, sentence)):
        return [sentence]
    body = sentence.strip()
    begin = sentence.index(body)
    return [sentence[:begin], body, sentence[begin + len(body) :]]


def _divided(sentence: str, fits: Callable[[str], bool]) -> List[str]:
    """As ``fitting``, of one sentence."""
    if fits(sentence):
        return ["", sentence, ""]
    for pattern in (_CLAUSE_END, _SPACE):
        ends = [match.end() for match in pattern.finditer(sentence)]
        ends = [end for end in ends if 0 < end < len(sentence)]
        if ends:
            middle = min(ends, key=lambda end: abs(2 * end - len(sentence)))
            halves = [_trimmed(half) for half in (sentence[:middle], sentence[middle:])]
            found = [""]
            for half in halves:
                _extend(found, half if len(half) == 1 else fitting(half, fits))
            return found
    return ["", sentence, ""]


def _extend(parts: List[str], more: List[str]) -> None:
    """Append the parts of what follows."""
    parts[-1] += more[0]
    parts += more[1:]
