"""README, CONTRIBUTING, SECURITY and the pages of ``docs`` as tests read them."""

import pathlib
import re
import shlex
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY"))]
PAGES += sorted(DOCS.glob("*.md"))
FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.M | re.S)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Block(NamedTuple):
    """A fenced block: the page, the line, the language that the fence names, and the content."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: pathlib.Path) -> list[Block]:
    """Every fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    blocks = []
    for match in FENCE.finditer(text):
        indent, _, language, inside = match.groups()
        lines = [line[len(indent) :] for line in inside.splitlines()]
        number = text.count("\n", 0, match.start()) + 1
        content = "\n".join(lines) + "\n"
        blocks.append(Block(str(page.relative_to(ROOT)), number, language.strip(), content))
    return blocks


def commands_in(text: str) -> list[tuple[str, ...]]:
    """The commands of a shell script as arguments, the program first; without redirections."""
    commands = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        redirected = False
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                redirected = word in (">", ">>", "<")
                if not redirected:
                    commands.append(tuple(words))
                    words = []
            elif redirected:
                redirected = False
            elif words or not ASSIGNMENT.match(word):
                words.append(word)
    return [command for command in commands if command]
