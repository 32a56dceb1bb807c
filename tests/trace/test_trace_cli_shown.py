"""Traces in a terminal and as a page: legible, and safe whatever text is in them."""

import base64
import hashlib
import io
import json
import re

import pytest

from fairseq_specdec.trace import Trace, TracedIteration, cli, write_traces

EVIL = '</script><img src=x onerror="alert(1)"><!-- <script>alert(2)</script>\u2028'
STEER = "a\x1b]0;owned\x07b\u202ec\nd"


def trace(strategy="gad++", number=3, source=("Der", "Hund"), own="barks", **settings):
    parts = [
        TracedIteration(
            0, ["The", "dog", "is", "a"], ["own", "relaxed", "rejected", "unseen"],
            ["The", "hound", own], own, ms=4.0, drafter_ms=1.0, verifier_ms=2.5,
        ),
        TracedIteration(3, [".", "</s>", "x"], ["own", "own", "unseen"], [".", "</s>"], None, 4, 2),
    ]  # fmt: skip
    output = ["The", "dog", own, ".", "</s>"]
    return Trace(number, strategy, settings, list(source), output, -0.5, parts)


@pytest.fixture
def files(tmp_path):
    def write(**traces):
        paths = []
        for name, listed in traces.items():
            write_traces(str(tmp_path / f"{name}.jsonl"), listed)
            paths.append(str(tmp_path / f"{name}.jsonl"))
        return paths

    return write


def run(*words):
    out = io.StringIO()
    cli.main([str(word) for word in words], out)
    return out.getvalue()


def test_show(files):
    shown = run("show", *files(a=[trace(tau=1.0)]))
    assert "source    Der Hund" in shown
    assert "gad++: 2 iterations, 2.50 tokens each, 4 of 7 drafted tokens accepted, 4.0 ms" in shown
    assert "1 @0   +The ~dog(hound) xis .a >barks   [4.00 ms = 1.00 drafter" in shown
    assert "2 @3   +. +</s> .x   [" in shown and "4 small steps, 2 sentences]" in shown
    assert "\x1b" not in shown


def beam_trace(number=3):
    parts = [
        TracedIteration(0, [], [], [], None, ms=1.0, agreed=[]),
        TracedIteration(0, [], [], [], None, ms=2.0, agreed=["The", "dog"]),
        TracedIteration(2, [], [], [], None, ms=1.0, agreed=[".", "</s>"]),
    ]
    output = ["The", "dog", ".", "</s>"]
    return Trace(number, "none", {"beam": 5}, ["Der", "Hund"], output, -0.5, parts)


def test_a_beam_search_is_shown(files):
    shown = run("show", *files(a=[beam_trace()]))
    assert "settings  beam 5" in shown
    assert "none: 3 iterations, 1.33 tokens each, 4.0 ms, score -0.5000" in shown
    passes = [line for line in shown.splitlines() if " @" in line]
    assert passes[0].startswith("1 @0      [1.00 ms")
    assert passes[1].startswith("2 @0   =The =dog   [")
    assert "=  beam search: in all hypotheses (at the end: in the best)" in shown
    assert "beam" not in run("show", *files(b=[trace()]))


def test_text_cannot_steer_the_terminal(files):
    shown = run("show", *files(a=[trace(source=[STEER], own=STEER)]))
    assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
    assert r">a\x1b]0;owned\x07b\u202ec d" in shown


def test_colours_are_for_terminals_and_no_color_is_heeded(files, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def shown(out):
        cli.main(["show", *files(a=[trace()])], out)
        return out.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain = shown(Terminal()), shown(io.StringIO())
    assert "\x1b[32m+The\x1b[0m" in coloured and "\x1b" not in plain
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(Terminal()) == plain


@pytest.fixture
def page(files, tmp_path):
    """Makes a page of traces: its text, and the data in it."""

    def make(*traces, **more):
        out = tmp_path / "page.html"
        run("html", *files(a=list(traces), **more), "-o", out)
        text = out.read_text(encoding="utf-8")
        return text, json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))

    return make


def test_text_from_a_corpus_cannot_become_markup(page):
    """Nothing but the page's own script may run, and nothing is loaded."""
    evil = trace(source=[EVIL], own=EVIL, number=5, drafter_path=EVIL)
    text, data = page(evil)
    tags = re.findall(r"<(\w+)", text)
    assert sorted(tags) == sorted(re.findall(r"<(\w+)", page(trace())[0])) and "img" not in tags
    assert data["sentences"][0]["source"] == [EVIL]
    assert data["sentences"][0]["runs"][0]["iterations"][0]["own"] == EVIL
    assert not re.search(r"https?://|@import|url\(|innerHTML|insertAdjacent|eval\(", text)
    policy = re.search(r'Policy" content="(.*?)">', text).group(1)
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for kind in ("style", "script"):
        (part,) = re.findall(f"<{kind}>(.*?)</{kind}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(part.encode("utf-8")).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_which_sentences(files):
    (path,) = files(a=[trace(number=n) for n in (5, 2, 9)])
    assert re.findall(r"=== sentence (\d+)", run("show", path, "--limit", 2)) == ["5", "2"]
    shown = run("show", path, "--id", 9, "--id", 5)
    assert re.findall(r"=== sentence (\d+)", shown) == ["9", "5"]
    assert run("html", path, "-o", path + ".html", "--limit", 1) == (
        f"{path}.html: 1 of 3 (--limit) sentences, 1 systems\n"
    )


def test_mistakes_are_named(files, tmp_path):
    a, b, empty = files(a=[trace(), trace()], b=[trace("gad", source=["Other"])], empty=[])
    (c,) = files(c=[trace()])
    for words, message in (
        (["show", a], "a.jsonl: sentence 3 is there twice for gad"),
        (["show", b, c], "c.jsonl: sentence 3 is another one in the traces before"),
        (["show", c, "--id", 8], "--id 8: no such sentence; there are 1"),
        (["show", c, "--limit", 0], "--limit 0: must be 1 or more"),
        (["show", empty], "no sentence in it"),
        (["html", c, "-o", tmp_path], "--output .*: is a directory"),
    ):
        with pytest.raises(ValueError, match=message):
            run(*words)
    with pytest.raises(SystemExit, match="specdec-trace: error: .*No such file.*nowhere.jsonl"):
        cli.cli_main(["show", str(tmp_path / "nowhere.jsonl")])
