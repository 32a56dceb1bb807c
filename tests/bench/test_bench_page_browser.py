"""The page of results in headless Chromium: on a phone, and for who cannot see it."""

import json
import pathlib

import pytest
from chromium_pipe import BEYOND, axe, browser, chromium

from fairseq_specdec.bench import page
from fairseq_specdec.bench.plots import Picture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium, chromium-browser, google-chrome"),
]

RUN = pathlib.Path(__file__).parents[2] / "benchmarks" / "demo_peers.json"


@pytest.fixture(params=["light", "dark"])
def opened(request, tmp_path):
    run = json.loads(RUN.read_text(encoding="utf-8"))
    with browser(tmp_path / "profile") as tab:
        (tmp_path / "bench.html").write_text(
            page.page(run, [Picture("speed", "Speed by system", b"")]), encoding="utf-8"
        )
        tab.as_phone(request.param)
        tab.open((tmp_path / "bench.html").as_uri())
        yield tab


def test_the_results_are_whole_on_a_phone(opened):
    assert opened.run("document.documentElement.scrollWidth") == 390
    wide = [name for name in opened.run(BEYOND) if name not in ("TR", "TH", "TD", "TBODY")]
    assert wide == []
    settings = "document.querySelector('details')"
    assert opened.run(f"{settings}.open") is False
    opened.run(f"{settings}.open = true")
    assert opened.run("document.documentElement.scrollWidth") == 390


@pytest.mark.skipif(axe() is None, reason="no axe-playwright-python")
def test_axe_has_nothing_against_the_results(opened):
    opened.run("document.querySelector('details').open = true")
    assert opened.violations() == []
