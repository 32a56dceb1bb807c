"""Requests through the queue: refused where it is full, deadlines, clients that leave, the end."""

import contextlib
import json
import socket
import threading

import pytest
from served import TEXTS, serving, until

from fairseq_specdec.decoding.loop import Batch


@pytest.fixture
def held(pair, monkeypatch):
    """(client, an event that lets decoding go on, batches begun)."""
    go_on, begun = threading.Event(), []
    go_on.set()
    iterate = Batch.iterate

    def iterating(batch, *most):
        begun.append(batch)
        assert go_on.wait(60)
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", iterating)
    words = [
        "--path", pair, "--strategy", "greedy", "--max-wait", 1e-6, "--max-deadline", 1,
        "--max-batch", 1,
    ]  # fmt: skip
    with serving(*words, "--max-connections", 8) as client:
        begun.clear()
        go_on.clear()
        try:
            yield client, go_on, begun
        finally:
            go_on.set()


def in_thread(work, *arguments):
    """(thread, list for its result)."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work(*arguments)))
    thread.start()
    return thread, results


def test_full_late_and_ready(held):
    """One request decodes, the next is refused at once; the deadline ends the first."""
    client, go_on, begun = held
    first, answers = in_thread(client.translate, TEXTS[:3])
    until(lambda: begun)
    status, answer, headers = client.translate(TEXTS[0])
    assert status == 429 and "Slowdown" in answer["error"] and int(headers["Retry-After"]) >= 1
    assert client.ask("/health")[0] == client.ask("/ready")[0] == 200
    first.join(60)
    assert answers[0][0] == 504 and "within 1 s" in answers[0][1]["error"]
    go_on.set()
    until(lambda: client.translate(TEXTS[0])[0] == 200)
    assert len({id(batch) for batch in begun}) == 2  # its other two sentences left the queue


def test_a_client_that_leaves_takes_its_sentences_out_of_the_queue(held):
    client, go_on, begun = held
    body = json.dumps({"q": TEXTS[:5], "source": "src", "target": "tgt"}).encode()
    lines = [
        "POST /translate HTTP/1.1", f"Host: 127.0.0.1:{client.port}",
        "Content-Type: application/json", f"Content-Length: {len(body)}", "", "",
    ]  # fmt: skip
    scheduler = client.service.scheduler
    with contextlib.closing(socket.create_connection(("127.0.0.1", client.port))) as line:
        line.sendall("\r\n".join(lines).encode() + body)
        until(lambda: begun)
        waiting = list(scheduler._waiting)
    until(lambda: all(job.future.cancelled() for job in waiting))
    go_on.set()
    until(lambda: scheduler.expected_wait() == 0)
    assert len({id(batch) for batch in begun}) == 1 and len(waiting) == 4


def test_connections_are_counted(held):
    client, _, _ = held
    lines = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(8)]
    until(lambda: client.ask("/health")[:2] == (503, "Service Unavailable"))
    for line in lines:
        line.close()
    until(lambda: client.ask("/health")[0] == 200)


def test_a_failure_is_reported_without_the_text(held, monkeypatch, caplog):
    client, go_on, _ = held
    go_on.set()

    def fail(batch, *most):
        raise ArithmeticError(TEXTS[0])

    monkeypatch.setattr(Batch, "iterate", fail)
    status, answer, _ = client.translate(TEXTS[0])
    assert status == 500 and "decoding failed (ArithmeticError)" in answer["error"]
    assert "ArithmeticError" in caplog.text and TEXTS[0] not in caplog.text + str(answer)


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "nan", ""])
def test_odd_deadlines_are_refused(client, seconds):
    body = {"q": "w1", "source": "src", "target": "tgt"}
    status, answer, _ = client.ask("/translate", body, X_Deadline=seconds)
    assert status == 400 and "must be seconds, above 0" in answer["error"]
    assert client.ask("/translate", body, X_Deadline="1e9")[0] == 200
