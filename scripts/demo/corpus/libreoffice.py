"""LibreOffice help (MPL-2.0): English and translated pages, paragraphs aligned by HTML id."""

import html.parser
import pathlib
import re

from .text import Pair, align_paragraphs, normalise

PARAGRAPHS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6"))
CONTENT_START = 'id="DisplayArea"'
CONTENT_END = ('id="SearchFrame"', 'id="DonationFrame"', "<footer")
# Pages carry a text per operating system; the branches that are hidden by default leave.
OTHER_SYSTEM = re.compile(
    r'<span hidden="true" id="(?:MAC|UNIX|WIN|IOS)[^"]*" class="[^"]*">'
    r"((?:(?!<span).|<span[^>]*>[^<]*</span>)*?)</span>",
    re.S,
)


class HelpPage(html.parser.HTMLParser):
    """Gathers `paragraphs`: id -> text, without code listings."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs: dict[str, str] = {}
        self._id: str | None = None
        self._class = ""
        self._buffer: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in PARAGRAPHS:
            self.finish()
            attributes = dict(attrs)
            self._id, self._class = attributes.get("id"), attributes.get("class") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag in PARAGRAPHS:
            self.finish()

    def handle_data(self, data: str) -> None:
        if self._id is not None:
            self._buffer.append(data)

    def finish(self) -> None:
        """Close the open paragraph, if any."""
        if self._id and self._buffer and "code" not in self._class:
            self.paragraphs.setdefault(self._id, normalise("".join(self._buffer)))
        self._id, self._buffer = None, []


def parse(text: str) -> dict[str, str]:
    """Paragraphs of one help page by id."""
    start = text.find(CONTENT_START)
    ends = [end for end in (text.find(mark, start) for mark in CONTENT_END) if end > 0]
    page = HelpPage()
    page.feed(OTHER_SYSTEM.sub("", text[start - 5 : min(ends + [len(text)])]))
    page.finish()
    return page.paragraphs


def collect(english: pathlib.Path, other: pathlib.Path) -> list[Pair]:
    """Pairs of every page that exists under both folders."""
    pairs: list[Pair] = []
    for path in walk_files(english, (".html",)):
        translated = other / path.relative_to(english)
        if translated.is_file():
            theirs = parse(translated.read_text(encoding="utf-8"))
            for key, text in parse(path.read_text(encoding="utf-8")).items():
                if key in theirs:
                    pairs += align_paragraphs(text, theirs[key])
    return pairs


def walk_files(folder: pathlib.Path, suffixes: tuple[str, ...]) -> list[pathlib.Path]:
    """Files whose names end in one of `suffixes`, sorted by path."""
    return sorted(p for p in folder.rglob("*") if p.name.endswith(suffixes) and p.is_file())
