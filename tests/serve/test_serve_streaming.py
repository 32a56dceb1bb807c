"""A translation as server-sent events."""

import contextlib
import http.client
import json
import threading
import time

import pytest
from served import TEXTS, serving, until

from fairseq_specdec.decoding.loop import Batch

LANGUAGES = {"source": "src", "target": "tgt"}


@pytest.fixture(scope="module")
def stream_client(pair):
    words = ["--path", pair, "--strategy", "gad", "--drafter-path", pair / "drafter.pt"]
    with serving(*words, "--max-deadline", 2, "--max-wait", 1e-6) as client:
        yield client


@contextlib.contextmanager
def opened(client, text, headers=(), **fields):
    """The answer to a stream, whose events can be read."""
    until(lambda: client.service.scheduler.expected_wait() == 0)
    line = http.client.HTTPConnection("127.0.0.1", client.port, 60)
    with contextlib.closing(line):
        body = json.dumps({"q": text, **LANGUAGES, **fields})
        kind = {"Content-Type": "application/json", **dict(headers)}
        line.request("POST", "/translate/stream", body, kind)
        yield line.getresponse()


def event(answer):
    """(name, data) of the next event, None at the end."""
    name, data = "message", None
    for line in iter(answer.readline, b""):
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data = json.loads(value)
        elif data is not None:
            return name, data
    return None


def events(client, text, **fields):
    with opened(client, text, **fields) as answer:
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-s")
        assert answer.headers["X-Accel-Buffering"] == "no"
        return list(iter(lambda: event(answer), None))


def test_the_pieces_are_the_text(stream_client):
    for text in TEXTS:
        until(lambda: stream_client.service.scheduler.expected_wait() == 0)
        expected = stream_client.translate(text)[1]["translatedText"]
        *parts, end = events(stream_client, text, source="auto")
        assert end == ("end", {"translatedText": expected})
        assert "".join(data["text"] for _, data in parts) == expected
        assert len(parts) > 1 and {name for name, _ in parts} == {"message"}
    text = f"{TEXTS[0]}. {TEXTS[1]}.\n\n- {TEXTS[2]}\n"
    expected = stream_client.translate(text)[1]["translatedText"]
    *parts, end = events(stream_client, text)
    assert end == ("end", {"translatedText": expected}) and "\n\n- " in expected
    assert "".join(data["text"] for _, data in parts) == expected
    assert events(stream_client, "---\n1") == [
        ("message", {"text": "---\n1"}), ("end", {"translatedText": "---\n1"}),
    ]  # fmt: skip
    assert events(stream_client, " ") == [("end", {"translatedText": ""})]


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"q": ""}, "missing q"),
        ({"q": ["w1"]}, "one text"),
        ({"alternatives": 1}, "one text"),
        ({"target": "src"}, "there is tgt"),
        ({"q": "w1 " * 2000}, "6000 characters"),
    ],
)
def test_what_cannot_be_streamed_has_a_status(stream_client, fields, words):
    status, answer, _ = stream_client.ask("/translate/stream", {"q": "w1", **LANGUAGES, **fields})
    assert status == 400 and words in answer["error"]


@pytest.fixture
def held(stream_client, monkeypatch):
    """(client, a semaphore with one permit for each iteration, batches begun)."""
    permits, begun = threading.Semaphore(0), []
    iterate = Batch.iterate

    def iterating(batch, *most):
        begun.append(batch)
        assert permits.acquire(timeout=60)
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", iterating)
    yield stream_client, permits, begun
    permits.release(1000)
    until(lambda: stream_client.service.scheduler.expected_wait() == 0)


def test_a_piece_leaves_before_the_next_block_is_decoded(held):
    client, permits, begun = held
    permits.release(3)
    with opened(client, TEXTS[0]) as answer:
        name, data = event(answer)
        assert name == "message" and data["text"] and len(begun) <= 4


def test_the_end_of_a_client_ends_its_decoding(held):
    client, permits, begun = held
    permits.release(3)
    with opened(client, TEXTS[0]) as answer:
        event(answer)
        until(lambda: len(begun) == 4)
    scheduler = client.service.scheduler
    time.sleep(0.1)  # until the server has noticed
    permits.release(1)
    until(lambda: scheduler.expected_wait() == 0)
    assert len(begun) == 4


def test_the_deadline_ends_a_stream(held):
    client, permits, begun = held
    permits.release(3)
    with opened(client, TEXTS[0]) as answer:
        events = list(iter(lambda: event(answer), None))
    name, data = events[-1]
    assert name == "error" and "no answer within 2 s" in data["error"] == data["message"]
    assert [each for each, _ in events[:-1]] == ["message"] * (len(events) - 1) != []
    permits.release(1)


def test_streams_are_bounded_as_all_requests_are(held):
    client, permits, begun = held
    permits.release(3)
    with opened(client, TEXTS[0]) as first:
        status, answer, headers = client.ask("/translate/stream", {"q": "w1", **LANGUAGES})
        assert status == 429 and int(headers["Retry-After"]) >= 1 and "Slowdown" in answer["error"]
        permits.release(1000)
        assert list(iter(lambda: event(first), None))[-1][0] == "end"


def test_a_failure_is_reported_as_an_event(stream_client, monkeypatch):
    iterate, calls = Batch.iterate, []

    def fail(batch, *most):
        calls.append(batch)
        if len(calls) > 3:
            raise ArithmeticError(TEXTS[0])
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", fail)
    *_, (name, data) = events(stream_client, TEXTS[0])
    assert name == "error" and data["error"].startswith("decoding failed (ArithmeticError)")
