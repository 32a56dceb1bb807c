"""The server's page in Chromium by Playwright."""

import pytest
from served import TEXTS, serving

api = pytest.importorskip("playwright.sync_api", reason="needs playwright and its Chromium")
pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
# Whole drafts, which do not pay with toys.
FLAGS = ("--demo", "--top-beta", 3, "--tau", 3.0, "--draft-budget", 0)


@pytest.fixture
def page():
    """A page on a phone; nothing in it fails, and it is not wider than the screen."""
    faults = []
    with api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch()
        except api.Error as error:
            pytest.skip(str(error).splitlines()[0])
        page = browser.new_page(**PHONE)
        page.on("pageerror", faults.append)
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") == 390 and not faults
        browser.close()


def test_the_servers_page_translates_and_races(page, pair):
    """Its address fills in the text alone."""
    with serving(pair, *FLAGS) as client:
        page.goto(f"{client.url}?text=w1%20w2&beam=3&run=1")
        assert page.input_value("#text") == "w1 w2" and page.input_value("#beam") == "1"
        page.fill("#text", TEXTS[0])
        page.press("#text", "Control+Enter")
        page.wait_for_selector("body[data-answers='1']")
        text = client.service.translator.translate(TEXTS[0]).text
        assert page.text_content("section[aria-label='gad'] .text") == text
        page.fill("#text", "<img src=x onerror=document.title='owned'> w1")
        page.click("form button")
        page.wait_for_selector("body[data-answers='2']")
        assert page.title() != "owned"
