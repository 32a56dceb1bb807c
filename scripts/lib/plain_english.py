"""Find phrases of translated English in pages, comments, docstrings and messages.

Lists them, and fails where there are more than ``MOST``.
"""

import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("fairseq_specdec", "scripts", "benchmarks", "docs", "examples")
MOST = 15
UNIT = "batch|block|iteration|minute|pair|pass|row|second|sentence|token|update"
COUNTED = "answers|drafts|iterations|lines|ms|passes|requests|seconds|sentences|times|tokens"
ODD = re.compile(
    r"in place of|needless|\blikewise\b|for want of|\bat hand\b|\bstands\b|\bbears\b|\bgoes on\b"
    r"|\bas of (?:[A-Z`]|stock|decoding)|\bas often\b.*\bas\b|\bsooner\b|\bbeforehand\b|\bhalves\b"
    r"|\b(?:is|are|was|been) told\b|\b(?:knows|wants|asks)\b|number format|\bin words\b"
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
    paths = [path for name in FOLDERS for path in (ROOT / name).rglob("*")] + [*ROOT.glob("*.md")]
    odd = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in sorted(paths)
        if path.suffix in (".py", ".md", ".sh") and "_build" not in path.parts
        if path != pathlib.Path(__file__).resolve()
        for number, line in prose(path)
        for match in ODD.finditer(line)
    ]
    print("\n".join([*odd, f"{len(odd)} odd phrases, at most {MOST}"]))
    return len(odd) > MOST


if __name__ == "__main__":
    sys.exit(main())
