"""The pages in headless Chromium: the server's, and that of ``specdec-trace html``."""

import contextlib
import json

import pytest
from chromium_pipe import BEYOND, axe, browser, chromium
from served import TEXTS, serving
from toy_pair import write_pair

from fairseq_specdec.trace import cli, write_traces

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium, chromium-browser, google-chrome"),
]

CTRL = 2
ONE = "document.querySelector('section[aria-label=\"{}\"] {}').textContent"
WORDS = (
    "[...document.querySelectorAll('section[aria-label=\"{}\"] .rounds .{} .word')]"
    ".map((word) => word.textContent)"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Of a demo's server; whole drafts, which of the toys do not pay."""
    pair = write_pair(tmp_path_factory.mktemp("pair"))
    flags = ["--top-beta", 3, "--tau", 3.0, "--draft-budget", 0]
    with serving(pair, "--demo", *flags) as client:
        yield client


@contextlib.contextmanager
def whole(tmp_path, scheme):
    """A page on a phone, on which nothing fails, and which stays whole and accessible."""
    with browser(tmp_path / "profile") as page:
        page.as_phone(scheme)
        yield page
        assert page.run("document.documentElement.scrollWidth") == 390 and page.run(BEYOND) == []
        ink = page.run("getComputedStyle(document.body).color")
        assert ink == {"light": "rgb(27, 31, 36)", "dark": "rgb(230, 237, 243)"}[scheme]
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        heard = [event for event in page.heard if event.get("method") in kinds]
        assert [e for e in heard if "status of 4" not in json.dumps(e)] == []
        if axe() is not None:
            assert page.violations() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_servers_page(client, tmp_path, scheme):
    """Its address fills in the text alone; keys translate, race, step and stop."""
    hub = client.service.translator
    markup = "<img src=x onerror=document.title='owned'> </script><b>w1</b>"
    with whole(tmp_path, scheme) as page:
        page.open(f"{client.url}?text=w1%20w2&beam=3&run=1")
        focus = "document.activeElement.id"
        assert page.run(f"[{focus}, document.getElementById('text').value]") == ["text", "w1 w2"]
        assert page.run("[document.querySelectorAll('.system').length, "
                        "document.getElementById('beam').value]") == [0, "1"]  # fmt: skip
        page.run("document.getElementById('text').select()")
        page.type(TEXTS[0])
        page.press("Enter", 13, CTRL)
        page.wait_for("document.body.dataset.answers === '1'")
        *names, _ = client.service.racers  # fairseq itself is the last
        rows = page.run("[...document.querySelectorAll('#rows tr')].map((row) => row.textContent)")
        heads = page.run("[...document.querySelectorAll('#rows th')].map((one) => one.textContent)")
        assert heads == [*names, "fairseq itself"]
        assert all("as greedy" in rows[names.index(name)] for name in ("gad", "lookup"))
        for name in names:
            flags = client.service.racers[name]
            trace = hub.translate(TEXTS[0], True, strategy=name, **flags).trace
            judged = [pair for each in trace.iterations for pair in zip(each.draft, each.verdicts)]
            for kind in ("own", "relaxed", "rejected"):
                expected = [word for word, verdict in judged if verdict == kind]
                assert page.run(WORDS.format(name, kind)) == expected
            assert page.run(ONE.format(name, ".text")) == trace.output_text
        assert page.run(WORDS.format("gad", "own"))
        page.run("document.activeElement.blur()")
        shown = "document.querySelectorAll('.rounds > li:not(.later)').length"
        every = page.run(shown)
        page.press("Home", 36)
        assert page.run(shown) == 0
        page.press("ArrowRight", 39)
        assert page.run(shown) == len(names)
        page.press(" ", 32)
        page.wait_for(f"{shown} === {every}")
        page.run(f"document.getElementById('text').value = {json.dumps(markup)}")
        page.run("document.querySelector('form button').click()")
        page.wait_for("document.body.dataset.answers === '2'")
        assert page.run("document.getElementById('translated').textContent")
        assert page.run("document.title") != "owned"
        page.run("document.getElementById('beam').value = '4'")
        page.run("document.getElementById('race').click()")
        page.wait_for("document.body.dataset.answers === '3'")
        assert page.run("document.querySelectorAll('details.beam .live-ones li').length") > 4
        page.run("document.getElementById('text').value = ''")
        page.run("document.getElementById('race').click()")
        page.wait_for("document.body.dataset.answers === '4'")
        assert "missing text" in page.run("document.getElementById('problem').textContent")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_traces(client, tmp_path, scheme):
    hub = client.service.translator
    texts = [TEXTS[0], "w1 than fits into a line " * 4]
    traces = [each.trace for each in hub.translate(texts, True, strategy="gad")]
    write_traces(str(tmp_path / "t.jsonl"), traces)
    cli.cli_main(["html", str(tmp_path / "t.jsonl"), "--output", str(tmp_path / "t.html")])
    with whole(tmp_path, scheme) as page:
        page.open((tmp_path / "t.html").as_uri())
        page.press("End", 35)
        assert page.run("document.querySelectorAll('.rounds > li:not(.later)').length") == len(
            traces[0].iterations
        )
        assert page.run(ONE.format("gad", ".text")) == traces[0].output_text
        assert TEXTS[0] in page.run("document.querySelector('.source').textContent")
        page.press("n", 78)
        assert "than fits" in page.run("document.querySelector('.source').textContent")
        ends = page.run("['.legend', '.system'].map((n) => document.querySelector(n).offsetTop)")
        assert ends[0] < ends[1], "the legend stands before what it explains"
