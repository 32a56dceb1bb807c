"""README, CONTRIBUTING and the pages of ``docs`` as tests read them: blocks, commands, sections."""

import pathlib
import re
import shlex
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [
    README,
    CONTRIBUTING,
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts),
]
FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.M | re.S)
# What a shell puts between or around commands.
BETWEEN = set("();<>|&")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Block(NamedTuple):
    """A fenced block: where it stands, what its fence names, what is in it."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class Command(NamedTuple):
    """A simple command: the variables set for it, and its words, the program first."""

    variables: tuple[str, ...]
    words: tuple[str, ...]


def text_of(page: pathlib.Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks_of(page: pathlib.Path) -> list[Block]:
    """Every fenced block of a page."""
    text, name = text_of(page), str(page.relative_to(ROOT))
    blocks = []
    for match in FENCE.finditer(text):
        indent, _, language, inside = match.groups()
        lines = [line[len(indent) :] for line in inside.splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        blocks.append(Block(name, number, language.strip(), "\n".join(lines) + "\n"))
    return blocks


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def commands_in(text: str) -> list[Command]:
    """The simple commands of a shell script; files to read from or write to are left out."""
    commands = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        redirected = False
        for word in [*lexer, ";"]:
            if set(word) <= BETWEEN:
                redirected = word in (">", ">>", "<")
                if not redirected and words:
                    commands.append(_command(words))
                    words = []
            elif redirected:
                redirected = False
            else:
                words.append(word)
    return [command for command in commands if command.words]


def _command(words: list[str]) -> Command:
    start = 0
    while start < len(words) and ASSIGNMENT.match(words[start]):
        start += 1
    return Command(tuple(words[:start]), tuple(words[start:]))


def sections(page: pathlib.Path) -> dict[str, str]:
    """{heading: text below it} of a page's headings of the second level."""
    parts = re.split(r"^## (.*)\n", text_of(page), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))
