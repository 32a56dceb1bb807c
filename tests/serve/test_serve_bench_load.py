"""The load generator: what it sends, when it ends, and that it notices what is wrong."""

import asyncio
import contextlib
import socket
import time

import pytest
from served import TEXTS

from fairseq_specdec.serve.bench.load import LOST, UNREAD, Bound, Loader

LANGUAGES = ("src", "tgt")


@pytest.fixture
def loader(client, expected):
    return Loader(client.port, TEXTS, [each.text for each in expected], LANGUAGES)


def asked(loader, how, amount, bound):
    async def work():
        try:
            return await getattr(loader, how)(amount, bound)
        finally:
            await loader.close()

    return asyncio.run(work())


@pytest.mark.parametrize("how, amount", [("closed", 4), ("open_loop", 1000)])
def test_each_text_is_asked_and_compared(client, loader, how, amount):
    """Twice as many as there are texts; then with one expectation that is wrong."""
    answers = asked(loader, how, amount, Bound(24, 60))
    assert [(each.status, each.right) for each in answers] == [(200, True)] * 24
    assert all(0 < each.seconds < 60 for each in answers)
    other = Loader(client.port, TEXTS[:2], [TEXTS[0], ""], LANGUAGES)
    assert [each.right for each in asked(other, how, amount, Bound(2, 60))] == [False, False]


def test_refusals_are_no_answers(client):
    answers = asked(Loader(client.port, TEXTS, TEXTS, ("src", "xx")), "closed", 1, Bound(3, 60))
    assert [(each.status, each.right) for each in answers] == [(400, False)] * 3


@pytest.mark.parametrize("how, amount", [("closed", 2), ("open_loop", 50)])
def test_the_time_is_bounded(loader, how, amount):
    began = time.monotonic()
    answers = asked(loader, how, amount, Bound(1_000_000, 0.3))
    assert 0 < len(answers) < 5000 and time.monotonic() - began < 30


def test_random_times_keep_the_rate(loader):
    began = time.monotonic()
    answers = asked(loader, "open_loop", 100, Bound(40, 60))
    assert len(answers) == 40 and 0.2 < time.monotonic() - began < 30


def reply(content):
    """A port whose next connection gets these bytes, and is closed."""
    listening = socket.create_server(("127.0.0.1", 0))

    async def work():
        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(content)
            writer.close()

        async with await asyncio.start_server(answer, sock=listening):
            loader = Loader(listening.getsockname()[1], ["w1"], ["x"], LANGUAGES)
            reply = await loader.ask(0)
            await loader.close()
            return reply

    with contextlib.closing(listening):
        return asyncio.run(work())


HEAD = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    "content, status, right",
    [
        (b"", LOST, False),
        (HEAD % (200, 30) + b'{"translatedText": "x"', LOST, False),
        (HEAD % (200, 1) + b"{", LOST, False),
        (HEAD % (200, 23) + b'{"translatedText": "x"}', 200, True),
        (HEAD % (200, 1) + b"1", 200, False),
    ],
)
def test_half_answers_are_lost(content, status, right):
    answer = reply(content)
    assert (answer.status, answer.right) == (status, right)


def test_a_refused_client_waits_as_long_as_the_answer_asks():
    assert reply(b"HTTP/1.1 429 X\r\nRetry-After: 2\r\nContent-Length: 2\r\n\r\n{}").again == 2


def test_what_a_server_has_not_read_is_distinguished():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        async def work():
            loader = Loader(listening.getsockname()[1], ["w1"], ["x"], LANGUAGES)
            asked = asyncio.ensure_future(loader.ask(0))
            line, _ = await asyncio.get_running_loop().run_in_executor(None, listening.accept)
            await asyncio.sleep(0.1)  # until the request is there
            line.close()
            return await asked

        assert asyncio.run(work()).status == UNREAD


def test_a_server_that_is_gone_gets_no_requests():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    loader = Loader(port, TEXTS, TEXTS, LANGUAGES)
    assert [each.status for each in asked(loader, "closed", 2, Bound(4, 60))] == [UNREAD] * 4
