"""The page, and races: strategies one after another, fairseq itself among them."""

import json
import re
import threading

import pytest
from served import TEXTS, serving

from fairseq_specdec.drafting.nar_block import NarBlockDrafter
from fairseq_specdec.serve import race
from fairseq_specdec.serve.race import stock_translator

TEXT = TEXTS[0]


@pytest.fixture(scope="module")
def demo(pair):
    """Whole drafts: else the toys' do not pay, and those of a race depend on the races before."""
    words = ["--top-beta", 3, "--tau", 3.0, "--draft-budget", 0, "--beam", 1]
    with serving(pair, "--demo", *words, "--max-characters", 400) as client:
        yield client


def asked(client, text=TEXT, **fields):
    """The events of a race."""
    body = {"text": text, "source": "src", "target": "tgt", **fields}
    status, answer, _ = client.ask("/race", body)
    assert status == 200, answer
    return [json.loads(line) for line in answer.splitlines()]


def data_of(client):
    page = client.ask("/")[1]
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))


def test_a_demo_races_all_that_the_model_allows(demo):
    (pair,) = data_of(demo)["pairs"]
    names = pair["strategies"]
    assert {"greedy", "iad", "lookup", "gad", "gad++", "nar"} <= set(names) and pair["stock"]
    assert not {"none", "specdec", "sps", "blockwise"} & set(names)
    *events, end = asked(demo, stock=True)
    assert [e["name"] for e in events if e["event"] == "go"] == names
    assert [e["name"] for e in events if e["event"] == "timed"][:-3] == names * race.REPEATS
    assert end["event"] == "end" and list(end["runs"]) == [*names, race.STOCK]
    for name, run in end["runs"].items():
        if name != race.STOCK:
            parts = [e["iteration"] for e in events if e["event"] == "block" and e["name"] == name]
            flags = demo.service.racers[name]
            hub = demo.service.translator.translate(TEXT, True, strategy=name, **flags)
            assert run["text"] == hub.text and run["tokens"] == len(hub.trace.output)
            assert len(parts) == len(hub.trace.iterations)
        lossless = name not in ("gad++", "nar")
        assert run["ms"] > 0 and (not lossless or run["text"] == end["runs"]["greedy"]["text"])


def test_a_beam_races_and_is_fairseqs(demo):
    *events, end = asked(demo, strategies=["greedy", "gad"], beam=4, stock=True)
    assert any(e["event"] == "block" and e["iteration"]["agreed"] for e in events)
    texts = {run["text"] for run in end["runs"].values()}
    assert texts == {stock_translator(demo.service.translator, 4)(TEXT)[0]}
    assert len(end["runs"]) == 3


def test_failures_are_events(demo, monkeypatch, caplog):
    (event,) = asked(demo, "w1 " * 130, strategies=["greedy"])[1:]
    assert event["event"] == "error" and "64" in event["message"]

    def fail(*arguments):
        raise RuntimeError(TEXT)

    monkeypatch.setattr(NarBlockDrafter, "open", fail)
    event = asked(demo, strategies=["gad"])[-1]
    assert event["event"] == "error" and "decoding failed (RuntimeError)" in event["message"]
    assert TEXT not in caplog.text
    monkeypatch.undo()
    assert asked(demo, strategies=["gad"])[-1]["event"] == "end"


def test_one_race_at_a_time(demo, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    raced = race.raced

    def slow(*arguments):
        begun.set()
        assert go_on.wait(60)
        yield from raced(*arguments)

    monkeypatch.setattr(race, "raced", slow)
    first = threading.Thread(target=asked, args=(demo,), kwargs={"strategies": ["greedy"]})
    first.start()
    assert begun.wait(60)
    monkeypatch.undo()
    threading.Timer(0.2, lambda: go_on.set() if first.is_alive() else None).start()
    events = asked(demo, strategies=["greedy"])
    assert go_on.is_set() and events[0]["event"] == "go" and events[-1]["event"] == "end"
    first.join()
