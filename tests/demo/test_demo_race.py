"""The events of a race."""

import json
import threading

import pytest
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.demo.race import (
    CHARACTERS,
    UnfitError,
    check_beam,
    check_names,
    check_stock,
    check_text,
    race,
)

TEXTS = [text_of(line) for line in sentences(6, seed=8)]


def test_blocks_make_the_translation(racers):
    accepted_tokens = 0
    for text in TEXTS:
        events = list(race(racers.translators, text, ["greedy", "gad", "gad++"], 0))
        assert json.loads(json.dumps(events, allow_nan=False)) == events
        for name, translator in racers.translators.items():
            mine = [event for event in events if event.get("name") == name]
            assert [e["event"] for e in mine] == ["go", *["block"] * (len(mine) - 2), "finish"]
            blocks, finish = mine[1:-1], mine[-1]
            result = translator.translate(text)
            assert finish["text"] == result.text
            assert finish["text"].startswith("".join(block["text"] for block in blocks))
            assert finish["iterations"] == len(blocks) == result.iterations
            assert [b["iteration"]["accepted"] for b in blocks] == result.accepted
            assert finish["tokens"] == len(result.tokens) + 1  # </s>
            assert finish["accepted"] == sum(result.accepted)
            assert finish["drafted"] == sum(result.drafted)
            mean = (len(result.tokens) + 1) / len(blocks)
            assert finish["mean_accepted_tokens"] == pytest.approx(mean, abs=1e-4)
            times = [block["at_ms"] for block in blocks]
            assert times == sorted(times) and 0 < times[0] and times[-1] <= finish["ms"]
            assert sum(b["iteration"]["ms"] for b in blocks) <= finish["ms"]
            accepted_tokens += sum(result.accepted)
    assert accepted_tokens > 0


def test_one_after_another_and_then_in_turns(racers):
    events = list(race(racers.translators, TEXTS[0], ["gad", "greedy"], 3))
    order = [(e["event"], e.get("name")) for e in events if e["event"] not in ("block",)]
    assert order == [
        ("start", None),
        *[("go", "gad"), ("finish", "gad"), ("go", "greedy"), ("finish", "greedy")],
        *[("timed", "gad"), ("timed", "greedy")] * 3,
        ("end", None),
    ]
    for name in ("gad", "greedy"):
        times = [e["ms"] for e in events if e["event"] == "timed" and e["name"] == name]
        assert events[-1]["ms"][name] == sorted(times)[1] > 0


def test_an_abandoned_race_ends(racers):
    events = race(racers.translators, TEXTS[0], ["greedy"], 1)
    assert [next(events)["event"] for _ in range(3)] == ["start", "go", "block"]
    events.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("specdec-stream")]


def test_a_race_with_a_beam(racers):
    wide = racers.at(3)
    assert list(wide) == racers.wide == ["greedy", "gad"] and racers.at(3) is wide
    drafted = 0
    for text in TEXTS:
        events = list(race(wide, text, ["greedy", "gad"], 1))
        assert json.loads(json.dumps(events, allow_nan=False)) == events
        assert events[-1]["event"] == "end"
        for name, translator in wide.items():
            mine = [event for event in events if event.get("name") == name]
            blocks = [e["iteration"] for e in mine if e["event"] == "block"]
            (finish,) = (e for e in mine if e["event"] == "finish")
            assert finish["text"] == translator.translate(text).text
            assert finish["drafted"] == sum(b["beam"]["drafted"] for b in blocks)
            assert all(len(b["beam"]["hypotheses"]) == b["live"] for b in blocks)
            assert max(b["live"] for b in blocks) == 3
            drafted += finish["drafted"]
    assert racers.at(1) is racers.translators
    assert racers.at(2)["gad"].settings["beam"] == 2


@pytest.mark.parametrize("beam", [0, 9, -1, True, 1.0, "2", [], {}, 10**40])
def test_unfit_beams(beam):
    with pytest.raises(UnfitError, match="The beam must be a whole number from 1 to 8"):
        check_beam(beam)


def test_strategies_that_are_not_lossless_have_no_beam(racers):
    assert check_beam(None) == 1 and check_beam(8) == 8
    assert check_names(None, racers, 2) == ["greedy", "gad"]
    assert check_names(["gad++"], racers, 1) == ["gad++"]
    with pytest.raises(UnfitError, match=r"'gad\+\+' is not lossless .* choose beam 1"):
        check_names(["gad", "gad++"], racers, 2)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "nothing to translate: type a sentence"),
        (" \n\u2003", "nothing to translate"),
        (None, "must be a string"),
        ("w1 " * CHARACTERS, f"has {3 * CHARACTERS} characters, and at most {CHARACTERS}"),
    ],
)
def test_unfit_texts(racers, text, message):
    with pytest.raises(UnfitError, match=message):
        check_text(text, racers.translators)


def test_a_text_of_too_many_tokens(racers, monkeypatch):
    first = next(iter(racers.translators.values()))
    monkeypatch.setattr(type(first), "longest_source", property(lambda self: 4))
    with pytest.raises(UnfitError, match="has 5 tokens, and the verifier reads 4: split"):
        check_text("w1 w2 w3 w4", racers.translators)
    assert check_text("w1 w2 w3", racers.translators) == "w1 w2 w3"


@pytest.mark.parametrize("names", [[], "gad", ["sps"], [["gad"]], [{}], [1]])
def test_unfit_names(racers, names):
    with pytest.raises(UnfitError, match="Choose at least one|is not loaded; there are greedy"):
        check_names(names, racers)


def test_names_in_the_order_of_loading(racers):
    assert check_names(["gad++", "greedy", "gad++"], racers) == ["greedy", "gad++"]
    assert check_names(None, racers) == ["greedy", "gad", "gad++"]


@pytest.mark.parametrize("beam", [1, 3])
def test_fairseq_itself_comes_last(racers, beam):
    """Its hypothesis is that of greedy, and of a lossless beam search."""
    translators, stock = racers.at(beam), racers.stock(beam)
    assert racers.stock(beam) is stock, "built once"
    calls = []

    def counted(text):
        calls.append(text)
        return stock(text)

    lengths = set()
    for text in TEXTS:
        events = list(race(translators, text, ["greedy"], 3, counted))
        assert [event["event"] for event in events[-5:]] == ["end", *["timed"] * 3, "stock"]
        last, own = events[-1], translators["greedy"].translate(text)
        assert last["ms"] == sorted(event["ms"] for event in events[-4:-1])[1]
        assert calls == [text] * 4, "after a warm-up"
        calls.clear()
        assert (last["text"], last["tokens"]) == (own.text, len(own.tokens) + 1)
        assert last["ms"] > 0
        lengths.add(last["tokens"])
    assert len(lengths) > 2
    assert "stock" not in [event["event"] for event in race(translators, text, ["greedy"], 1)]


@pytest.mark.parametrize("stock", [0, 1, "yes", []])
def test_fairseq_itself_is_asked_for_by_true_or_false(stock):
    with pytest.raises(UnfitError, match="true or false"):
        check_stock(stock)
