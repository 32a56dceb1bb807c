"""SIGTERM and Ctrl-C: what was accepted is answered, what is new is refused."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from served import TEXTS, Client, serving


def load(client, number, answers):
    """Ask until nobody answers; note what each answer was."""
    while True:
        try:
            answers.append(client.translate(TEXTS[number % 12]))
        except OSError as error:
            answers.append(error)
            return


def under_load(client, end, threads=8):
    """(answers of all threads, seconds from ``end()`` to the last)."""
    by_thread = [[] for _ in range(threads)]
    loads = [threading.Thread(target=load, args=(client, i, by_thread[i])) for i in range(threads)]
    for each in loads:
        each.start()
    while min(map(len, by_thread)) < 2:
        time.sleep(0.01)
    began = time.monotonic()
    end()
    for each in loads:
        each.join()
    return by_thread, time.monotonic() - began


def check(by_thread, expected):
    """Every request had its right answer, but for the last of each thread, which nobody took."""
    for number, answers in enumerate(by_thread):
        for answer in answers[:-1]:
            assert answer[0] == 503 or answer[:2] == (200, {"translatedText": expected[number]})
        assert isinstance(answers[-1], (ConnectionRefusedError, ConnectionResetError))


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)])
def test_the_end_under_load(pair, signals):
    """A second Ctrl-C changes nothing: every thread ends."""
    before = set(threading.enumerate())
    with serving("--path", pair, "--workers", 2) as client:
        expected = [client.translate(text)[1]["translatedText"] for text in TEXTS]
        stalled = socket.create_connection(("127.0.0.1", client.port))
        stalled.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        uvicorn = client.server.uvicorn
        with contextlib.closing(stalled):
            answers, seconds = under_load(
                client, lambda: [uvicorn.handle_exit(each, None) for each in signals]
            )
    check(answers, expected)
    assert seconds < 5 and set(threading.enumerate()) <= before


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_ends_under_load(pair, number):
    code = "from fairseq_specdec.commands.start import serve; serve()"
    words = ["--port", "0", "--path", str(pair), "--device", "cpu", "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    process = subprocess.Popen([sys.executable, "-c", code, *words], env=environment, **pipes)
    try:
        line = process.stdout.readline()
        port = int(line.split()[4].strip("/").rpartition(":")[2])
        address = SimpleNamespace(getsockname=lambda: ("127.0.0.1", port))
        client = Client(SimpleNamespace(url=line.split()[4], socket=address))
        expected = [client.translate(text)[1]["translatedText"] for text in TEXTS]
        answers, seconds = under_load(client, lambda: process.send_signal(number))
        assert process.wait(60) == 0 and seconds < 5
        check(answers, expected)
        assert process.stderr.read() == process.stdout.read() == ""
        assert "Ctrl-C" not in line
    finally:
        process.kill()
        process.communicate()
