"""The report in headless Chromium: on a phone, in the dark, and for who cannot see it."""

import pytest
from chromium_pipe import BEYOND, PHONE, SCREENS, axe, browser, chromium

from fairseq_specdec.accelerate import report
from fairseq_specdec.accelerate.commands import Job
from fairseq_specdec.accelerate.state import State
from fairseq_specdec.accelerate.verifier import Fitting

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium, chromium-browser, google-chrome"),
]

PATH = "checkpoints/a_folder_whose_name_is_much_longer_than_a_phone_is_wide/verifier.pt"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of two pairs, two beams and two batch sizes; its address."""
    folder = tmp_path_factory.mktemp("report")
    job = Job("bin", PATH, str(folder), "en", "de", 1, True, False, 1000, 1, 8, 5, (1, 8))
    job = job._replace(task=("--task", "t"), pairs=("en-de", "en-ro"))
    state = State(str(folder), {})
    names = ("fairseq beam 1", "fairseq beam 5", "greedy", "gad", "greedy, beam 5", "gad, beam 5")
    rows = [{"system": name, "ms_mean": 9.0 - i, "tok": 1.5} for i, name in enumerate(names)]
    uses = {name: {row["system"]: row for row in rows} for name, _, _ in job.uses}
    state.note("measure", rows=uses, sentences=20)
    counts = {"chosen": 40, "kept": 40, "dropped": 0, "reasons": {}}
    state.note("distil", counts=counts)
    history = {"updates": 6, "history": [1.1, 1.4], "checked": [3, 6], "seconds": 60.0, "why": "x"}
    state.note("train", **history)
    report.write(job, state, Fitting("a", [], "2 layers"))
    return (folder / "report.html").as_uri()


@pytest.fixture(params=SCREENS, ids=str)
def opened(request, page, tmp_path):
    with browser(tmp_path) as chrome:
        chrome.as_screen(*request.param)
        chrome.open(page)
        yield chrome


def test_the_report_is_whole_and_named(opened):
    assert opened.run("document.documentElement.scrollWidth") <= opened.run("innerWidth")
    wide = [name for name in opened.run(BEYOND) if name not in ("TR", "TH", "TD", "TBODY")]
    assert wide == [] and opened.run("innerWidth") in dict(SCREENS)
    model = "a_folder_whose_name_is_much_longer_than_a_phone_is_wide/verifier.pt"
    assert opened.run("document.title") == f"Decoding {model} faster: en-de, en-ro"
    assert opened.run("document.querySelectorAll('ul li').length") == 8, "a sentence for each use"
    assert "; use gad." in opened.run("document.querySelector('h1 + p').textContent")
    narrow = opened.run("innerWidth") == PHONE
    scrolls = "[...document.querySelectorAll('table')].every((one) => one.scrollWidth > innerWidth)"
    assert opened.run(scrolls) is narrow, "figures stay in one line and are scrolled to"


@pytest.mark.skipif(axe() is None, reason="no axe-playwright-python")
def test_axe_has_nothing_against_the_report(opened):
    assert opened.violations() == []
