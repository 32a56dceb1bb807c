"""The page in headless Chromium: type, race, see the accepted blocks, take a screenshot."""

import json

import pytest
from chromium_pipe import BEYOND, axe, browser, chromium
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.demo.page import page_of
from fairseq_specdec.demo.race import race
from fairseq_specdec.trace import cli

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium, chromium-browser, google-chrome"),
]

CTRL = 2


@pytest.fixture
def page(server, tmp_path):
    with browser(tmp_path / "profile") as shown:
        shown.prefer({"prefers-reduced-motion": "reduce"})  # no replay by itself
        yield shown
        troubles = [
            event
            for event in shown.heard
            if event.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")
            # A refused request is logged too; it is what some tests ask for.
            and "status of 4" not in json.dumps(event)
        ]
        assert troubles == []


def focus(page):
    return page.run("document.activeElement.id || document.activeElement.value")


def shown(page, name, kind):
    """The words of a lane's tokens of one kind."""
    return page.run(
        f"[...document.querySelectorAll('section[aria-label=\"{name}\"] .{kind} .word')]"
        ".map((word) => word.textContent)"
    )


def test_type_race_and_see_the_blocks(page, server, racers, tmp_path):
    text = text_of(sentences(30, seed=9)[17])
    page.open(server.url)
    assert focus(page) == "text"
    page.type(text)
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '1'")
    assert page.run("document.getElementById('problem').hidden")
    names = list(racers.translators)
    expected = list(race(racers.translators, text, names, 0))
    for name in names:
        parts = [e["iteration"] for e in expected if e["event"] == "block" and e["name"] == name]
        for kind in ("own", "relaxed", "rejected", "unseen"):
            words = [w for p in parts for w, v in zip(p["draft"], p["verdicts"]) if v == kind]
            assert shown(page, name, kind) == words
        assert shown(page, name, "verifier") == [p["own"] for p in parts if p["own"] is not None]
        lane = f'document.querySelector(\'section[aria-label="{name}"]'
        assert (
            page.run(f"{lane} .text').textContent") == racers.translators[name].translate(text).text
        )
        assert page.run(f"{lane} .facts').textContent").startswith(f"{len(parts)} iteration")
    assert shown(page, "gad", "own") and shown(page, "gad++", "relaxed")
    rows = page.run("[...document.querySelectorAll('#rows tr')].map((row) => row.innerText)")
    assert [row.split("\t")[0] for row in rows] == [*names, "fairseq itself"]
    assert "as greedy" in rows[1] and "as greedy" in rows[-1]
    # Told apart without colour: by sign, by border, and by words for those who listen.
    looks = page.run(
        "['own', 'relaxed', 'verifier'].map((kind) => {"
        "const box = document.querySelector('#legend .' + kind);"
        "return [box.querySelector('.mark').textContent, getComputedStyle(box).borderTopStyle,"
        "box.querySelector('.hidden').textContent]; })"
    )
    assert all(len(set(column)) == 3 for column in zip(*looks))
    picture = page.screenshot()
    assert picture.startswith(b"\x89PNG") and len(picture) > 20000


STATUS = "document.getElementById('status').textContent"


def test_an_example_races_at_a_click_and_all_replay(page, server, racers, monkeypatch):
    example = text_of(sentences(30, seed=9)[17])
    monkeypatch.setattr(server, "page", page_of(racers._replace(examples=[example]), 2))
    page.prefer({})
    page.open(server.url + "?text=w1")
    page.run("document.querySelector('#examples button').click()")
    page.wait_for(f"{STATUS}.startsWith('Replay done. Done. Fastest: ')")
    assert page.run("document.getElementById('text').value") == example
    assert page.run("document.body.dataset.races") == "1" and "fairseq itself: " in page.run(STATUS)
    page.run("document.querySelector('#examples button').click()")
    page.wait_for(f"{STATUS}.startsWith('Timing')")
    page.press("Escape", 27)
    page.wait_for("document.body.dataset.races === '2'")
    assert page.run(STATUS) == "Stopped.", "nor does it replay"


def test_keys_alone(page, server):
    page.open(server.url + "?text=w1%20w2%20w3")
    page.run(
        "document.querySelectorAll('#strategies input').forEach((box) => {"
        "box.checked = box.value === 'gad'; })"
    )
    seen = []
    for _ in range(5):
        seen.append(focus(page))
        page.press("Tab", 9)
    assert seen == ["text", "greedy", "gad", "gad++", "run"]
    checked = "[...document.querySelectorAll('#strategies input')].map((box) => box.checked)"
    assert page.run(checked) == [False, True, False]
    for _ in range(4):
        page.press("Tab", 9, 8)
    page.press(" ", 32)
    assert focus(page) == "greedy" and page.run(checked) == [True, True, False]
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '1'")
    assert page.run("document.querySelectorAll('.lane').length") == 2
    assert focus(page) == "greedy"
    page.run("document.getElementById('replay').click()")
    page.wait_for("document.getElementById('status').textContent.startsWith('Replay')")
    page.press("Escape", 27)
    assert page.run("document.getElementById('status').textContent") == "Stopped."
    assert page.run("document.getElementById('replay').disabled") is False


def test_a_beam_is_chosen_and_its_passes_open(page, server, racers):
    text = text_of(sentences(30, seed=9)[17])
    page.open(server.url)
    page.type(text)
    page.run(
        "(() => { const beam = document.getElementById('beam'); beam.value = '4';"
        "beam.dispatchEvent(new Event('change')); })()"
    )
    boxes = "[...document.querySelectorAll('#strategies input')].map((box) => box.disabled)"
    assert page.run(boxes) == [False, False, True]
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '1'")
    assert page.run("document.getElementById('problem').hidden")
    expected = list(race(racers.at(4), text, ["greedy", "gad"], 0))
    for name in ("greedy", "gad"):
        parts = [e["iteration"] for e in expected if e["event"] == "block" and e["name"] == name]
        passes = page.run(
            f"[...document.querySelectorAll('section[aria-label=\"{name}\"] details.beam')].map("
            "(pass) => [pass.open, pass.querySelector('summary').textContent,"
            "[...pass.querySelectorAll('.live-ones li')].map((one) =>"
            "[...one.querySelectorAll('.word')].map((word) => word.textContent))])"
        )
        assert [one[0] for one in passes] == [False] * (len(parts) - 1) + [True]
        for part, (_, words, lists) in zip(parts, passes):
            beam = part["beam"]
            assert words.startswith(f"{beam['scored']} prefixes scored, {beam['drafted']} of them")
            assert lists == [one["tokens"] for one in beam["hypotheses"]]
        ends = [one["waits"] for part in parts for one in part["beam"]["hypotheses"]]
        empty = sum(not one["tokens"] for part in parts for one in part["beam"]["hypotheses"])
        assert len(shown(page, name, "waits")) == sum(ends) - empty > 0
    assert page.run("document.querySelectorAll('.lane').length") == 2


def test_an_address_fills_in_the_text_alone(page, server):
    page.open(server.url + "?text=w1%20w2&beam=3&strategies=gad&drafts=1&run=1")
    assert page.run("document.getElementById('text').value") == "w1 w2"
    assert page.run("document.getElementById('beam').value") == "1"
    assert page.run("document.querySelectorAll('#strategies input:checked').length") == 3
    assert page.run("document.querySelectorAll('.lane').length") == 0
    assert page.run("document.body.hasAttribute('aria-busy')") is False


def test_markup_stays_text(page, server):
    text = "<img src=x onerror=document.title='owned'> </script><b>w1</b>"
    page.open(server.url)
    page.type(text)
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '1'")
    assert page.run("document.title") == "Strategies race: src to tgt"
    assert page.run("document.querySelectorAll('main img, main b').length") == 0
    assert page.run("document.querySelectorAll('.lane').length") == 3


def test_problems_are_reported(page, server):
    page.open(server.url)
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '1'")
    problem = page.run("document.getElementById('problem').innerText")
    assert "type a sentence" in problem and focus(page) == "text"
    page.type("w1 w2")
    page.run(
        "document.querySelectorAll('#strategies input').forEach((b) => { b.checked = false; })"
    )
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '2'")
    assert "at least one" in page.run("document.getElementById('problem').innerText")


def test_stop_ends_a_waiting_race(page, server):
    with server.turn:
        page.open(server.url + "?text=w1%20w2")
        page.press("Enter", 13, CTRL)
        page.wait_for("document.getElementById('status').textContent.includes('waits')")
        page.press("Escape", 27)
        page.wait_for("document.body.dataset.races === '1'")
    assert page.run("document.getElementById('status').textContent") == "Stopped."
    assert page.run("document.getElementById('run').disabled") is False


# Elements that reach beyond the page's right edge.
INK = "getComputedStyle(document.body).color"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_race_is_whole_on_a_phone(page, server, scheme):
    page.as_phone(scheme)
    page.open(server.url)
    page.type(text_of(sentences(30, seed=9)[17]))
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '1'")
    assert page.run("document.documentElement.scrollWidth") == 390 and page.run(BEYOND) == []
    # Without a head, each cell of the table says what it is.
    shown_row = page.run("[...document.querySelectorAll('#rows tr')][1].innerText")
    labels = page.run(
        "[...document.querySelectorAll('#rows tr:first-child td')]"
        ".map((cell) => getComputedStyle(cell, '::before').content)"
    )
    assert labels[:2] == ['"Time"', '"Speed"'] and len(labels) == 8 and "as greedy" in shown_row
    assert page.run(INK) == {"light": "rgb(27, 31, 36)", "dark": "rgb(230, 237, 243)"}[scheme]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_trace_is_whole_on_a_phone(page, tmp_path, scheme):
    trace = {
        "id": 7, "strategy": "gad", "settings": {"block_size": 3}, "version": 1,
        "source": ["a", "long@@", "er", "sentence", *["than fits into a line"] * 9, "</s>"],
        "output": ["x", "y", "</s>"], "score": -0.5, "source_text": None, "output_text": None,
        "iterations": [
            {
                "position": 0, "draft": ["x", "y", "z"], "verdicts": ["own", "own", "rejected"],
                "choices": ["x", "y", "</s>"], "own": "</s>", "steps": 0, "rows": 1, "ms": 3.5,
                "drafter_ms": 1.0, "verifier_ms": 2.25,
            }
        ],
    }  # fmt: skip
    (tmp_path / "t.jsonl").write_text(json.dumps(trace) + "\n", encoding="utf-8")
    cli.cli_main(["html", str(tmp_path / "t.jsonl"), "--output", str(tmp_path / "t.html")])
    page.as_phone(scheme)
    page.open((tmp_path / "t.html").as_uri())
    page.press("End", 35)
    assert page.run("document.documentElement.scrollWidth") == 390 and page.run(BEYOND) == []
    source = page.run("document.querySelector('.source').textContent")
    assert "a longer sentence than" in source and "</s>" not in source and "@@" not in source
    ends = page.run("['.legend', '.system'].map((n) => document.querySelector(n).offsetTop)")
    assert ends[0] < ends[1], "the legend stands before what it explains"


@pytest.mark.skipif(axe() is None, reason="no axe-playwright-python")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_nothing_against_a_race(page, server, scheme):
    page.as_phone(scheme)
    page.open(server.url)
    assert page.violations() == []
    page.type(text_of(sentences(30, seed=9)[17]))
    page.press("Enter", 13, CTRL)
    page.wait_for("document.body.dataset.races === '1'")
    assert page.violations() == []
