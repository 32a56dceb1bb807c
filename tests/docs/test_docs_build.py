"""The documentation builds without a warning, and loads nothing from elsewhere."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys

import pytest
from doc_pages import ROOT

BUILDER = ("sphinx", "myst_parser", "furo")


@pytest.mark.slow
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in BUILDER),
    reason="needs the extra docs: pip install -e '.[docs]'",
)
def test_it_builds_without_warnings(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-E", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(tmp_path / "html")],
        env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    pages = sorted((tmp_path / "html").rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", text)
        assert not loaded, page.name
    gad = (tmp_path / "html" / "strategies" / "gad.html").read_text(encoding="utf-8")
    assert "<math" in gad and "$$" not in gad


def test_make_builds_it_so():
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    recipe = itertools.takewhile(bool, lines[lines.index("docs:") + 1 :])
    *_, command = recipe
    assert {"-W", "-E", "docs"} <= set(command.split())


def test_make_names_what_it_needs(tmp_path):
    """Of a Python without Sphinx."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    command = ["make", "-s", "docs", f"PYTHON={bare}"]
    done = subprocess.run(command, cwd=str(ROOT), stderr=subprocess.PIPE, text=True)
    assert done.returncode != 0 and f"{bare} -m pip install '.[docs]'" in done.stderr
