"""DocBook, Mallard and HTML manuals, aligned by the sequence of block elements in each file."""

import bz2
import difflib
import gzip
import html
import pathlib
import re
from collections.abc import Callable

from .libreoffice import walk_files
from .text import Pair, align_paragraphs, normalise

Block = tuple[str, str]  # element name and text
BLOCKS = frozenset(
    "para simpara title subtitle p h1 h2 h3 h4 h5 h6 li td th dt dd entry term desc cite caption "
    "listitem blockquote div item note section tr table tbody figcaption".split()
)
SKIPPED_BLOCKS = frozenset(
    "screen programlisting pre script style literallayout synopsis cmdsynopsis head nav credit "
    "bookinfo articleinfo authorgroup footer".split()
)
SKIPPED_INLINE = frozenset(("indexterm", "remark"))
TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<!DOCTYPE[^\[>]*(?:\[.*?\])?\s*>|<\?.*?\?>|<[^>]+>|[^<]+", re.S
)
# Entities that HTML does not know are the manual's own: keep their names, or what they stand for.
OWN_ENTITY = re.compile(
    r"&(?!(?:amp|lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-fA-F]+|"
    r"[a-zA-Z]+(?:uml|acute|grave|lig|cedil|circ|dash|quo|quor|aquo));)([A-Za-z][\w.-]*);"
)
OWN_ENTITIES = {"kde": "KDE", "linux": "Linux", "LMB": "left mouse button"}
SUFFIXES = (".docbook", ".page", ".html", ".xml", ".docbook.bz2", ".xhtml")
# Runs of equal structure shorter than this are more often chance than alignment.
MIN_RUN = 6


def read_text(path: pathlib.Path) -> str:
    """Text of a plain, gzip or bzip2 file."""
    opener = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rb") as stream:
        return stream.read().decode("utf-8", "replace")


def resolve_entities(text: str) -> str:
    """Replace entities, the manual's own by a name."""
    own = OWN_ENTITY.sub(lambda m: OWN_ENTITIES.get(m.group(1), m.group(1)), text)
    return html.unescape(own)


class _Reader:
    """Blocks found so far, and the elements that are open where it reads."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._text: list[str] = []
        self._tag, self._skip, self._skip_inline = "", 0, 0

    def flush(self) -> None:
        """End a block."""
        joined = normalise(resolve_entities("".join(self._text)))
        self._text = []
        if joined:
            self.blocks.append((self._tag, joined))

    def text(self, token: str) -> None:
        """Take text, unless it is of a listing or metadata."""
        if not self._skip and self._skip_inline <= 0:
            self._text.append(token)

    def element(self, name: str, closing: bool, empty: bool) -> None:
        if name in SKIPPED_BLOCKS and not empty:
            self.flush()
            self._skip = max(0, self._skip - 1) if closing else self._skip + 1
        elif name in SKIPPED_INLINE and not empty:
            self._skip_inline += -1 if closing else 1
        elif name in BLOCKS:
            self.flush()
            self._tag = "" if closing else name


def parse(text: str) -> list[Block]:
    """Blocks of one document in order, without listings and metadata."""
    text = re.sub(r"(</gui\w*>)\s*(<gui)", r"\1 – \2", text)
    text = re.sub(r"(</key(?:cap)?>)\s*(<key)", r"\1+\2", text)
    reader = _Reader()
    for token in TOKEN.findall(text):
        element = re.match(r"</?\s*([\w:.-]+)", token)
        if not token.startswith("<"):
            reader.text(token)
        elif element:
            closing, empty = token.startswith("</"), token.endswith("/>")
            reader.element(element.group(1).lower(), closing, empty)
    reader.flush()
    return reader.blocks


def align(a: list[Block], b: list[Block]) -> list[Pair]:
    """Texts whose blocks correspond: all if the structures are equal, else long equal runs."""
    kinds_a, kinds_b = [kind for kind, _ in a], [kind for kind, _ in b]
    if kinds_a == kinds_b:
        return [(x[1], y[1]) for x, y in zip(a, b)]
    pairs: list[Pair] = []
    matcher = difflib.SequenceMatcher(None, kinds_a, kinds_b, autojunk=False)
    for name, a1, a2, b1, b2 in matcher.get_opcodes():
        if name == "equal" and a2 - a1 >= MIN_RUN:
            pairs += [(x[1], y[1]) for x, y in zip(a[a1:a2], b[b1:b2])]
    return pairs


def align_files(english: pathlib.Path, other: pathlib.Path) -> list[Pair]:
    """Sentence pairs of one document and its translation."""
    pairs: list[Pair] = []
    for a, b in align(parse(read_text(english)), parse(read_text(other))):
        pairs += align_paragraphs(a, b)
    return pairs


def collect(
    english: pathlib.Path, other: pathlib.Path, rename: Callable[[str], str] = lambda name: name
) -> list[Pair]:
    """Pairs of every document under `english` whose (renamed) file exists under `other`."""
    pairs: list[Pair] = []
    for path in walk_files(english, SUFFIXES):
        relative = path.relative_to(english)
        translated = other / relative.parent / rename(relative.name)
        if translated.is_file():
            pairs += align_files(path, translated)
    return pairs
