"""The documentation builds without a warning, and loads nothing from elsewhere."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys

import pytest
from chromium_pipe import SCREENS, axe, browser, chromium
from doc_pages import ROOT

BUILDER = ("sphinx", "myst_parser", "furo")


# Pages with all that pages have: code, tables, pictures, equations, classes; the theme's own.
SEEN = ("index", "search", "genindex", "gpu", "serving", "strategies", "api/hub")
needs_builder = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in BUILDER),
    reason="needs the extra docs: pip install -e '.[docs]'",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the pages, built without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-E", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(ROOT / "docs"), str(folder / "html")],
        env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


@needs_builder
@pytest.mark.slow
def test_it_loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?:[^\"]+)", text)
        assert not loaded, page.name
    text = (site / "strategies.html").read_text(encoding="utf-8")
    assert "<math" in text and "$$" not in text


@needs_builder
@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="no chromium, chromium-browser, google-chrome")
@pytest.mark.skipif(axe() is None, reason="no axe-playwright-python")
@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_axe_has_nothing_against_the_pages(site, screen, tmp_path):
    faults = {}
    with browser(tmp_path) as opened:
        opened.as_screen(*screen)
        for name in SEEN:
            opened.open((site / f"{name}.html").as_uri())
            wide = opened.run("document.documentElement.scrollWidth > innerWidth")
            faults[name] = [*opened.violations(), *(["wide"] if wide else [])]
    assert {name: what for name, what in faults.items() if what} == {}


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
