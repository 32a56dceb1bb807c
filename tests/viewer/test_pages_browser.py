"""The server's page and the page of traces, in Chromium by Playwright."""

import contextlib

import pytest
from served import TEXTS, serving
from toy_pair import write_pair

from fairseq_specdec.trace import cli, write_traces

api = pytest.importorskip("playwright.sync_api", reason="needs playwright and its Chromium")
pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Of a demo's server with whole drafts, which do not pay with toys."""
    pair = write_pair(tmp_path_factory.mktemp("pair"))
    flags = ["--top-beta", 3, "--tau", 3.0, "--draft-budget", 0]
    with serving(pair, "--demo", *flags) as client:
        yield client


@contextlib.contextmanager
def opened(url):
    """A page on a phone; nothing in it fails, and it is not wider than the screen."""
    faults = []
    with api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch()
        except api.Error as error:
            pytest.skip(str(error).splitlines()[0])
        page = browser.new_page(**PHONE)
        page.on("pageerror", faults.append)
        page.goto(url)
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") == 390 and not faults
        browser.close()


def test_the_servers_page_translates_and_races(client):
    """Its address fills in the text alone."""
    hub = client.service.translator
    with opened(f"{client.url}?text=w1%20w2&beam=3&run=1") as page:
        assert page.input_value("#text") == "w1 w2" and page.input_value("#beam") == "1"
        page.fill("#text", TEXTS[0])
        page.press("#text", "Control+Enter")
        page.wait_for_selector("body[data-answers='1']")
        assert page.text_content("section[aria-label='gad'] .text") == hub.translate(TEXTS[0]).text
        page.fill("#text", "<img src=x onerror=document.title='owned'> w1")
        page.click("form button")
        page.wait_for_selector("body[data-answers='2']")
        assert page.title() != "owned"


def test_the_page_of_traces_shows_every_iteration(client, tmp_path):
    translation = client.service.translator.translate(TEXTS[0], True, strategy="gad")
    write_traces(str(tmp_path / "t.jsonl"), [translation.trace])
    cli.cli_main(["html", str(tmp_path / "t.jsonl"), "--output", str(tmp_path / "t.html")])
    with opened((tmp_path / "t.html").as_uri()) as page:
        page.keyboard.press("End")
        assert page.locator(".rounds > li:not(.later)").count() == translation.iterations
        assert page.text_content("section[aria-label='gad'] .text") == translation.text
