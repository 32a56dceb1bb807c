"""The table of flags in docs/decoding.md is that of the config; ``SPECDEC_UPDATE=1`` writes it."""

import os
import re

import pytest
from doc_pages import ROOT

from fairseq_specdec.bench.systems import DECODING

PAGE = ROOT / "docs" / "decoding.md"
TABLE = re.compile(r"(?<=<!-- flags -->\n\n).*?(?=\n\n<!-- /flags -->)", re.DOTALL)


def table():
    """A row a flag: its name and its help, which ends with its default."""
    lines = ["| flag | meaning and default |", "|---|---|"]
    for field in DECODING:
        text = " ".join(str(field.metadata["help"]).split())
        text = re.sub(r"(?<![\w`-])(--[a-z](?:[\w-]*\w)?)", r"`\1`", text.replace("|", "\\|"))
        lines.append(f"| `--{field.name.replace('_', '-')}` | {text.replace('%%', '%')} |")
    return "\n".join(lines)


def test_the_table_of_flags_is_that_of_the_config():
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("SPECDEC_UPDATE"):
        page = TABLE.sub(lambda _: table(), page)
        PAGE.write_text(page, encoding="utf-8")
    (found,) = TABLE.findall(page)
    assert found == table(), "SPECDEC_UPDATE=1 writes it anew"


@pytest.mark.parametrize("page", ["choosing.md", "native.md", "strategies/gad.md"])
def test_other_pages_do_not_repeat_a_default(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert not re.search(r"--draft-confidence`? 0\.3|0\.3 (?:natively|for small)", text)
