"""Manual pages (roff, `man` macros) and their translations, aligned by roff structure."""

import difflib
import gzip
import pathlib
import re
from collections.abc import Iterable

from .roff import macro_arguments, unroff
from .text import Pair, align_paragraphs, is_good_pair, normalise

Block = tuple[str, str]  # kind of roff structure and text
FONTS = frozenset(("B", "I", "SM", "SB", "R"))
ALTERNATING_FONTS = frozenset(("BR", "IR", "RB", "RI", "BI", "IB"))
LISTING_START = frozenset(("nf", "EX", "TS"))
LISTING_END = frozenset(("fi", "EE", "TE"))
# Requests that neither hold text nor end a paragraph.
TRANSPARENT = frozenset(
    "UR MT ft nh hw UE ME cc ec eo ss lf ce nr ds as tr mso so rm ev TH AT UC PM ll do pc char "
    "warn blm bp pl sv if ie el".split()
)
# Runs of equal structure shorter than this are more often chance than alignment.
MIN_RUN = 3
MAX_STRUCTURE_DIFFERENCE = 0.15


def read_page(path: pathlib.Path) -> str:
    """Text of a plain or gzip page, in UTF-8 or else Latin-1."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


class PageParser:
    """Gathers `blocks` from the lines of one page; see `parse`."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._buffer: list[str] = []
        self._kind = "p"
        self._listing = False
        self._tag_next = False
        self._in_definition = False

    def flush(self) -> None:
        """Close the open paragraph, if any."""
        if self._buffer:
            self.blocks.append((self._kind, normalise(unroff(" ".join(self._buffer)))))
        self._buffer, self._kind = [], "p"

    def _flush_tag(self) -> None:
        self._kind = "tag"
        self.flush()
        self._tag_next = False

    def line(self, line: str) -> None:
        """Take one line of the page."""
        if self._in_definition:
            self._in_definition = not line.startswith("..")
            return
        if re.match(r"^[.'](de1?|ig|am)\b", line):
            self._in_definition = True
            return
        if re.match(r"^[.']\s*\\\"", line):
            return
        request = re.match(r"^[.']\s*([A-Za-z]+)\s*(.*)$", line)
        if request:
            self._request(request.group(1), request.group(2))
            return
        line = re.sub(r"^\.?\\}\s*", "", line)
        if not line.strip():
            self.flush()
        elif not self._listing:
            self._buffer.append(line.strip())
            if self._tag_next:
                self._flush_tag()
            elif self._kind in ("SH", "SS"):
                self.flush()

    def _request(self, name: str, rest: str) -> None:
        if name in ("if", "ie", "el") or rest == r"\}":
            return
        rest = re.sub(r'\s*\\".*$', "", rest)
        if name in FONTS or name in ALTERNATING_FONTS:
            words = macro_arguments(rest)
            if words:
                self._buffer.append(("" if name in ALTERNATING_FONTS else " ").join(words))
                if self._tag_next:
                    self._flush_tag()
        elif name in LISTING_START:
            self.flush()
            self._listing = True
        elif name in LISTING_END:
            self._listing, self._buffer, self._kind = False, [], "p"
            self.blocks.append(("nf", ""))
        elif name not in TRANSPARENT:
            self.flush()
            self._break(name, rest)

    def _break(self, name: str, rest: str) -> None:
        if name in ("SH", "SS"):
            if rest.strip():
                heading = normalise(unroff(" ".join(macro_arguments(rest))))
                self.blocks.append((name, heading))
            else:  # the heading is on the next line
                self._tag_next, self._kind = False, name
        elif name in ("TP", "TQ"):
            self._tag_next = True
        elif name == "IP":
            words = macro_arguments(rest)
            self.blocks.append(("ip", normalise(unroff(words[0])) if words else ""))


def parse(text: str) -> list[Block] | None:
    """Blocks of a page in order; None for pages in mdoc and pages that only name another."""
    if re.search(r"^\.Dd|^\.Sh ", text, re.M) or re.match(r"\s*\.so\s+(\S+)", text):
        return None
    parser = PageParser()
    for line in text.split("\n"):
        parser.line(line)
    parser.flush()
    return parser.blocks


def sections(blocks: list[Block]) -> list[list[Block]]:
    """Split before each section heading."""
    out: list[list[Block]] = [[]]
    for block in blocks:
        if block[0] == "SH":
            out.append([block])
        else:
            out[-1].append(block)
    return out


def align(a: list[Block], b: list[Block]) -> list[Pair]:
    """Texts of blocks that correspond, section by section where the sections agree.

    A translated page may have one section more, the translator's credits.
    """
    sections_a, sections_b = sections(a), sections(b)
    if len(sections_b) - len(sections_a) in (0, 1):
        candidates = list(zip(sections_a, sections_b))
    else:
        candidates = [(a, b)]
    pairs: list[Pair] = []
    for x, y in candidates:
        kinds_x, kinds_y = [kind for kind, _ in x], [kind for kind, _ in y]
        difference = abs(len(kinds_x) - len(kinds_y))
        if kinds_x == kinds_y:
            pairs += _texts(x, y)
        elif difference <= MAX_STRUCTURE_DIFFERENCE * max(len(kinds_x), len(kinds_y)):
            matcher = difflib.SequenceMatcher(None, kinds_x, kinds_y, autojunk=False)
            for name, x1, x2, y1, y2 in matcher.get_opcodes():
                if name == "equal" and x2 - x1 >= MIN_RUN:
                    pairs += _texts(x[x1:x2], y[y1:y2])
    return pairs


def _texts(x: list[Block], y: list[Block]) -> list[Pair]:
    return [(p[1], q[1]) for p, q in zip(x, y) if p[0] != "nf"]


def find_pages(roots: Iterable[pathlib.Path], folder: str) -> dict[tuple[str, str], pathlib.Path]:
    """Pages by (section folder, file name); the first root that has a page wins."""
    pages: dict[tuple[str, str], pathlib.Path] = {}
    for root in roots:
        for path in sorted((root / folder).glob("man[1-9]/*.gz")):
            if not path.is_symlink():
                pages.setdefault((path.parent.name, path.name), path)
    return pages


def collect(roots: list[pathlib.Path], language: str) -> list[Pair]:
    """Sentence pairs of every page that exists in English and in `language`."""
    english = find_pages(roots, "usr/share/man")
    pairs: list[Pair] = []
    for key, path in sorted(find_pages(roots, f"usr/share/man/{language}").items()):
        if key not in english:
            continue
        ours, theirs = parse(read_page(english[key])), parse(read_page(path))
        for a, b in align(ours, theirs) if ours and theirs else []:
            if a and b:
                pairs += align_paragraphs(a, b)
    return pairs


def is_good(a: str, b: str, language: str) -> bool:
    """`is_good_pair`, and no option (`-v, --verbose`), synopsis or single word."""
    if a.startswith("-") or b.startswith("-") or len(a.split()) < 2:
        return False
    return is_good_pair(a, b, language)
