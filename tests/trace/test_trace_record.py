"""Verdicts and their JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.errors import UsageError
from fairseq_specdec.trace import Trace, TracedIteration, verdicts


@pytest.mark.parametrize(
    "draft, accepted, emitted, choices, sampled, message",
    [
        ("abc", 3, "abcd", "abcd", False, "own own own"),
        ("abc", 1, "ax", "ax", False, "own rejected unseen"),
        ("abc", 0, "x", "x", False, "rejected unseen unseen"),
        ("abc", 2, "abx", "aqx", False, "own relaxed rejected"),
        ("abc", 2, "abx", "aqx", True, "own drawn rejected"),
        # An accepted </s> ended the sentence: nobody looked at the rest, nor wrote a token.
        ("a$c", 2, "a$", "a$", False, "own own unseen"),
        ("", 0, "x", "x", False, ""),
        # A rule may drop what the verifier would have chosen too (alpha_RB = 0).
        ("a", 0, "a", "a", False, "rejected"),
    ],
)
def test_verdicts(draft, accepted, emitted, choices, sampled, message):
    assert verdicts(draft, accepted, emitted, choices, sampled) == message.split()


def iteration(draft, count, own):
    marks = ["own"] * count + ["rejected"] * (count < len(draft))
    marks += ["unseen"] * (len(draft) - len(marks))
    choices = draft[:count] + ([] if own is None else [own])
    return TracedIteration(0, draft, marks, choices, own, 2, 3, 1.5, 0.5, 0.75)


words = st.text(max_size=4)


@given(
    st.lists(words, max_size=4), st.lists(words, max_size=5), st.none() | words, st.none() | words
)
def test_json_and_back(source, draft, own, text):
    part = iteration(draft, len(draft) // 2, own)
    trace = Trace(3, "gad", {"tau": 1.0}, source, part.emitted, -0.5, [part], text, text)
    line = trace.to_json()
    assert "\n" not in line
    assert Trace.from_json(line) == trace
    assert trace.accepted == len(draft) // 2 and trace.drafted == len(draft)


# As version 1 was written from the first release on: a pass of a beam search.
BEAM = (
    '{"position": 0, "draft": [], "verdicts": [], "choices": [], "own": null, "steps": 0, '
    '"rows": 1, '
    '"ms": 1.5, "drafter_ms": 0.0, "verifier_ms": 1.5, "agreed": ["a"]'
)
ONCE = ', "live": 2, "beam": {"steps": 2}'  # what beams had then, which nothing reads any more


def test_a_file_of_version_1_is_read_and_written_the_same():
    line = (
        '{"id": 3, "strategy": "gad", "settings": {"tau": 1.0}, "source": ["s"], "output": ["a"], '
        f'"score": -0.5, "iterations": [{BEAM}}}], "source_text": null, "output_text": "a", '
        '"version": 1}'
    )
    assert Trace.from_json(line).to_json() == line
    assert Trace.from_json(line.replace(BEAM, BEAM + ONCE)).to_json() == line


def test_a_score_that_is_no_number_is_none():
    trace = Trace(1, "iad", {}, [], [], float("-inf"))
    assert Trace.from_json(trace.to_json()).score is None


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d.pop("version"), "no trace .*; write one with fairseq-generate --trace-path"),
        (lambda d: d.update(version=9), "no trace .of version 9, and this program reads 1"),
        (lambda d: d.pop("source"), "no trace"),
        (lambda d: d.update(new=1), "no trace"),
        (lambda d: d["iterations"][0].update(verdicts=["own"]), "one known verdict for each"),
        (lambda d: d["iterations"][0].update(verdicts=["<b>", "own"]), "one known verdict"),
        (lambda d: d["iterations"][0].update(choices=[]), "not one choice for each"),
    ],
)
def test_what_is_no_trace_is_refused(change, message):
    part = iteration(["a", "b"], 1, "x")
    plain = Trace(3, "gad", {}, ["s"], part.emitted, -0.5, [part]).to_dict()
    change(plain)
    with pytest.raises(UsageError, match=message):
        Trace.from_json(json.dumps(plain))
