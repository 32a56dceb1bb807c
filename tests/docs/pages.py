"""README, CONTRIBUTING, SECURITY and the pages of ``docs`` as tests read them."""

import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY"))]
PAGES += sorted(DOCS.glob("*.md"))
FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.M | re.S)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def blocks_of(page):
    """(language, content) of every fenced block of a page."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [
        (language.strip(), re.sub(f"^{indent}", "", text, flags=re.M))
        for indent, _, language, text in found
    ]


def commands_in(text):
    """The commands of a shell script as arguments, the program first; without redirections."""
    commands = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words, redirected = [], False
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
