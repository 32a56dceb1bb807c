"""Requests through the queue, answered whole or as events: refused where it is full, deadlines,
clients that leave, failures."""

import contextlib
import http.client
import json
import socket
import threading
import time

import pytest
from served import TEXTS, serving, until

from fairseq_specdec.decoding.greedy import Batch

LANGUAGES = {"source": "src", "target": "tgt"}


@pytest.fixture(scope="module")
def small(pair):
    """Of a server that decodes one text at a time, and lets none wait."""
    words = ["--path", pair, "--strategy", "greedy"]
    words += ["--max-wait", 1e-6, "--max-deadline", 2, "--max-batch", 1, "--max-connections", 8]
    with serving(*words) as client:
        yield client


@pytest.fixture
def held(small, monkeypatch):
    """(client, a semaphore with one permit for each iteration, batches begun)."""
    permits, begun = threading.Semaphore(0), []
    iterate = Batch.iterate

    def iterating(batch, *most):
        begun.append(batch)
        assert permits.acquire(timeout=60)
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", iterating)
    yield small, permits, begun
    permits.release(1000)
    idle(small)


def idle(client):
    """Wait until nothing is decoded."""
    until(lambda: client.service.scheduler.expected_wait() == 0)


def in_thread(work, *arguments):
    """(thread, list for its result)."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work(*arguments)))
    thread.start()
    return thread, results


def test_full_late_and_ready(held):
    """One request decodes, the next is refused at once; the deadline ends the first."""
    client, permits, begun = held
    first, answers = in_thread(client.translate, TEXTS[:3])
    until(lambda: begun)
    status, answer, headers = client.translate(TEXTS[0])
    assert status == 429 and "Slowdown" in answer["error"] and int(headers["Retry-After"]) >= 1
    assert client.ask("/health")[0] == client.ask("/ready")[0] == 200
    first.join(60)
    assert answers[0][0] == 504 and "before the deadline" in answers[0][1]["error"]
    permits.release(1000)
    until(lambda: client.translate(TEXTS[0])[0] == 200)
    assert len({id(batch) for batch in begun}) == 2  # its other two sentences left the queue


def test_a_client_that_leaves_takes_its_sentences_out_of_the_queue(held, caplog):
    client, permits, begun = held
    body = json.dumps({"q": TEXTS[:5], **LANGUAGES}).encode()
    lines = [
        "POST /translate HTTP/1.1", f"Host: 127.0.0.1:{client.port}",
        "Content-Type: application/json", f"Content-Length: {len(body)}", "", "",
    ]  # fmt: skip
    scheduler = client.service.scheduler
    with contextlib.closing(socket.create_connection(("127.0.0.1", client.port))) as line:
        line.sendall("\r\n".join(lines).encode() + body)
        until(lambda: begun)
        waiting = list(scheduler.waiting)
    until(lambda: all(job.future.cancelled() for job in waiting))
    permits.release(1000)
    until(lambda: scheduler.expected_wait() == 0)
    assert len({id(batch) for batch in begun}) == 1 and len(waiting) == 4
    assert "never retrieved" not in caplog.text


def test_connections_are_counted(held):
    client, _, _ = held
    lines = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(8)]
    until(lambda: client.ask("/health")[:2] == (503, "Service Unavailable"))
    for line in lines:
        line.close()
    until(lambda: client.ask("/health")[0] == 200)


def test_a_failure_is_reported_without_the_text(held, monkeypatch, caplog):
    client, permits, _ = held
    permits.release(1000)

    def fail(batch, *most):
        raise ArithmeticError(TEXTS[0])

    monkeypatch.setattr(Batch, "iterate", fail)
    status, answer, _ = client.translate(TEXTS[0])
    assert status == 500 and "decoding failed (ArithmeticError)" in answer["error"]
    assert "ArithmeticError" in caplog.text and TEXTS[0] not in caplog.text + str(answer)


@pytest.mark.parametrize("seconds", ["x", "nan"])
def test_odd_deadlines_are_refused(client, seconds):
    body = {"q": "w1", **LANGUAGES}
    status, answer, _ = client.ask("/translate", body, X_Deadline=seconds)
    assert status == 400 and "must be seconds, above 0" in answer["error"]
    assert client.ask("/translate", body, X_Deadline="1e9")[0] == 200


@contextlib.contextmanager
def opened(client, text, headers=(), **fields):
    """The answer to a stream, whose events can be read."""
    idle(client)
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


def test_the_pieces_are_the_text(small):
    for text in TEXTS:
        idle(small)
        expected = small.translate(text)[1]["translatedText"]
        *parts, end = events(small, text, source="auto")
        assert end == ("end", {"translatedText": expected})
        assert "".join(data["text"] for _, data in parts) == expected
        assert len(parts) > 1 and {name for name, _ in parts} == {"message"}
    text = f"{TEXTS[0]}. {TEXTS[1]}.\n\n- {TEXTS[2]}\n"
    idle(small)
    expected = small.translate(text)[1]["translatedText"]
    *parts, end = events(small, text)
    assert end == ("end", {"translatedText": expected}) and "\n\n- " in expected
    assert "".join(data["text"] for _, data in parts) == expected
    assert events(small, "---\n1") == [
        ("message", {"text": "---\n1"}), ("end", {"translatedText": "---\n1"}),
    ]  # fmt: skip
    assert events(small, " ") == [("end", {"translatedText": ""})]


def test_the_end_of_a_client_ends_its_decoding(held):
    client, permits, begun = held
    permits.release(3)
    with opened(client, TEXTS[0]) as answer:
        event(answer)
        until(lambda: len(begun) == 4)
    time.sleep(0.1)  # until the server has noticed
    permits.release(1)
    idle(client)
    assert len(begun) == 4


def test_the_deadline_ends_a_stream(held):
    client, permits, begun = held
    permits.release(3)
    with opened(client, TEXTS[0]) as answer:
        events = list(iter(lambda: event(answer), None))
    name, data = events[-1]
    assert name == "error" and "before the deadline" in data["error"] == data["message"]
    assert [each for each, _ in events[:-1]] == ["message"] * (len(events) - 1) != []
    permits.release(1)
