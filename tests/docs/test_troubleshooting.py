"""The messages on the page of troubleshooting are those of the code, word by word."""

import ast
import functools
import re

import pytest
from doc_pages import ROOT, text_of

PAGE = ROOT / "docs" / "troubleshooting.md"
MESSAGES = re.findall(r"^\| `([^`]+)` \|", text_of(PAGE), flags=re.M)
# Their refusals are what a user meets when decoding: all of them stand on the page.
DECODING = ("decoding", "drafting")


def flattened(node):
    """The text of a string expression, with … for what is put in at run time; "" for others."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(flattened(part) for part in node.values)
    return "…" if isinstance(node, ast.FormattedValue) else ""


def raised_or_warned(tree):
    """Texts that a module raises or logs as warnings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from map(flattened, node.exc.args)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warning":
            yield from map(flattened, node.args[:1])


@functools.lru_cache(maxsize=None)
def messages_of(folder=""):
    """Messages of all modules below a folder of the package."""
    messages = set()
    for path in sorted((ROOT / "fairseq_specdec" / folder).rglob("*.py")):
        messages.update(raised_or_warned(ast.parse(path.read_text(encoding="utf-8"))))
    return frozenset(filter(None, messages))


@pytest.mark.parametrize("message", MESSAGES)
def test_the_code_has_it(message):
    assert any(message in text for text in messages_of())


def test_no_message_stands_twice():
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("folder", DECODING)
def test_every_refusal_of_decoding_is_explained(folder):
    refusals = {text for text in messages_of(folder) if text.startswith(("--", "…"))}
    refusals -= {"--drafter-path: …"}  # the words of another refusal, after the flag
    assert refusals
    assert not {text for text in refusals if not any(message in text for message in MESSAGES)}
