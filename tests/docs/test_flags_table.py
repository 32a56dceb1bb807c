"""Defaults of flags stand in the table of docs/decoding.md alone, which test_readme.py compares."""

import re

import pytest
from doc_pages import ROOT


@pytest.mark.parametrize("page", ["choosing.md", "native.md", "strategies.md"])
def test_other_pages_do_not_repeat_a_default(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert not re.search(r"--draft-confidence`? 0\.3|0\.3 (?:natively|for small)", text)
