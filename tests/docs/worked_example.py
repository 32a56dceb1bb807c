"""The worked example of docs/adding_a_strategy.md: its files, its changes, a copy that has them."""

import pathlib
import re
import shutil
from typing import NamedTuple

from doc_pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "adding_a_strategy.md"
# Folders of the copy that are written to; all others are links.
CHANGED = ("fairseq_specdec", "tests", "docs")
FIELD = re.compile(r"^    (\w+): [\w\[\]]+ = flag\($", re.M)


class Part(NamedTuple):
    """A block that names a file: its whole text, or a diff of it."""

    path: str
    is_diff: bool
    text: str


def parts_of(page: pathlib.Path) -> list[Part]:
    """The blocks of a page whose fences name a file after the language."""
    parts = []
    for block in blocks_of(page):
        language, _, path = block.language.partition(" ")
        if path:
            parts.append(Part(path, language == "diff", block.text))
    return parts


def hunks_of(diff: str) -> list[tuple[str, str]]:
    """(lines before, lines after) of the hunks of a diff, which ``@@`` separates."""
    hunks = []
    for hunk in re.split(r"^@@\n", diff, flags=re.M):
        lines = [line or " " for line in hunk.splitlines()]
        assert {line[0] for line in lines} <= set(" +-"), hunk
        before = "".join(line[1:] + "\n" for line in lines if line[0] != "+")
        after = "".join(line[1:] + "\n" for line in lines if line[0] != "-")
        hunks.append((before, after))
    return hunks


def apply(part: Part, root: pathlib.Path) -> None:
    """Make or change the file of a part below ``root``.

    Raises:
        AssertionError: the file is there already, or does not have a hunk's lines exactly once.
    """
    path = root / part.path
    if not part.is_diff:
        assert not path.exists(), f"{part.path} is there already"
        path.write_text(part.text, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    for before, after in hunks_of(part.text):
        assert ("\n" + text).count("\n" + before) == 1, f"{part.path} has not once:\n{before}"
        text = ("\n" + text).replace("\n" + before, "\n" + after)[1:]
    path.write_text(text, encoding="utf-8")


def changed_copy(folder: pathlib.Path) -> pathlib.Path:
    """A copy of the repository with everything that the page adds."""
    ignore = shutil.ignore_patterns("__pycache__", "_build")
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name in CHANGED:
            shutil.copytree(str(entry), str(folder / entry.name), ignore=ignore)
        elif entry.suffix == ".md":
            shutil.copy(str(entry), str(folder / entry.name))
        elif entry.name != ".git":
            (folder / entry.name).symlink_to(entry)
    for part in parts_of(PAGE):
        apply(part, folder)
    return folder


PARTS = parts_of(PAGE)
NEW_FILES = frozenset(part.path for part in PARTS if not part.is_diff)
NEW_FLAGS = frozenset(
    "--" + name.replace("_", "-") for part in PARTS for name in FIELD.findall(part.text)
)
