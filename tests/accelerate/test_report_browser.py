"""The report in headless Chromium: on a phone, in the dark, and for who cannot see it."""

import pytest
from chromium_pipe import BEYOND, PHONE, SCREENS, axe, browser, chromium

from fairseq_specdec.accelerate import cli, report
from fairseq_specdec.accelerate.commands import Fitting, Job, State

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium, chromium-browser, google-chrome"),
]

PATH = "checkpoints/a_folder_whose_name_is_much_longer_than_a_phone_is_wide/verifier.pt"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of two pairs, two beams and two batch sizes; its address."""
    folder = tmp_path_factory.mktemp("report")
    args = cli.get_parser().parse_args([PATH, "--out", str(folder)])
    args.batch_sizes = (1, 8)
    state = State(str(folder / "state"), {})
    job = Job(
        args, state, "bin", PATH, str(folder), ("en-de", "en-ro"), True, ("--task", "t"), True
    )
    job = job._replace(fitting=Fitting("a", [], "2 layers"))
    names = ("fairseq beam 1", "fairseq beam 5", "greedy", "gad", "greedy, beam 5", "gad, beam 5")
    rows = [{"system": name, "ms_mean": 9.0 - i, "tok": 1.5} for i, name in enumerate(names)]
    uses = {name: {row["system"]: row for row in rows} for name, _, _ in job.uses}
    state.note("measure", rows=uses, sentences=20)
    counts = {"chosen": 40, "kept": 40, "dropped": 0, "reasons": {}}
    state.note("distil", counts=counts)
    history = {"updates": 6, "history": [1.1, 1.4], "checked": [3, 6], "seconds": 60.0, "why": "x"}
    state.note("train", **history)
    report.write(job)
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize("screen", SCREENS, ids=str)
def test_the_report_is_whole_and_named(page, tmp_path, screen):
    with browser(tmp_path) as opened:
        opened.as_screen(*screen)
        opened.open(page)
        assert opened.run("document.documentElement.scrollWidth") <= opened.run("innerWidth")
        wide = [name for name in opened.run(BEYOND) if name not in ("TR", "TH", "TD", "TBODY")]
        assert wide == [] and opened.run("innerWidth") in dict(SCREENS)
        model = "a_folder_whose_name_is_much_longer_than_a_phone_is_wide/verifier.pt"
        assert opened.run("document.title") == f"Decoding {model} faster: en-de, en-ro"
        assert opened.run("document.querySelectorAll('ul li').length") == 8, "one for each use"
        tables = "[...document.querySelectorAll('table')]"
        scrolled = opened.run(f"{tables}.every((one) => one.scrollWidth > innerWidth)")
        assert scrolled is (opened.run("innerWidth") == PHONE), "figures stay in one line"
        assert axe() is None or opened.violations() == []
