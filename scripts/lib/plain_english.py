"""Find phrases of translated English in pages, comments, docstrings and messages.

Lists them, and fails if there are more than ``MOST``.
"""

import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = (
    "*.md", "docs/*.*", "fairseq_specdec/**/*.py", "scripts/**/*.*", "examples/**/*.py",
    "benchmarks/*.py", "benchmarks/RESULTS.md", "benchmarks/METHOD.md", "benchmarks/design-log.md",
)  # fmt: skip
MOST = 15
COUNTED = "answers|drafts|iterations|lines|ms|passes|requests|seconds|sentences|times|tokens"
UNIT = "batch|block|iteration|minute|pair|pass|row|second|sentence|token|update"
ODD = re.compile(
    r"in place of|needless|\blikewise\b|for want of|\bat hand\b|\bstands\b(?! for)|\bbears\b"
    r"|\b(?:goes on|as of (?:[A-Z`]|stock|decoding)|sooner|beforehand|in halves)\b"
    r"|\b(?:is|are|was|been) told\b|\b(?:knows|wants|asks)\b|\bas often\b.*\bas\b"
    r"|\bwords of (?:a|the) (?:command|dictionary|vocabulary)|\b(?:list|lists|tables) of words\b"
    rf"|(?:\d|\b(?:{COUNTED})) an? (?:{UNIT})\b|\bone (?:line|sentence|edit) each\b"
    r"|(?:^|[.:|] |\"\"\")Of (?:an?|the|those|all|each|several|both|what|these)\b"
)


def prose(path: pathlib.Path) -> list[tuple[int, str]]:
    """(line number, text) of what a file says to people."""
    with path.open(encoding="utf-8") as lines:
        if path.suffix != ".py":
            return list(enumerate(lines, 1))
        kinds = (tokenize.COMMENT, tokenize.STRING)
        found = [t for t in tokenize.generate_tokens(lines.readline) if t.type in kinds]
    return [
        (token.start[0] + i, line)
        for token in found
        if " " in token.string
        for i, line in enumerate(token.string.splitlines())
    ]


def main() -> int:
    """The exit status; prints what was found."""
    paths = {path for pattern in FILES for path in ROOT.glob(pattern)}
    odd = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in sorted(paths - {pathlib.Path(__file__).resolve()})
        if path.suffix in (".py", ".md", ".sh")
        for number, line in prose(path)
        for match in ODD.finditer(line)
    ]
    print("\n".join([*odd, f"{len(odd)} odd phrases, at most {MOST}"]))
    return int(len(odd) > MOST)


if __name__ == "__main__":
    sys.exit(main())
