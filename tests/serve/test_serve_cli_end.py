"""SIGTERM and Ctrl-C, also while SIGHUP loads the model again: what was accepted is answered, what
is new is refused."""

import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

from served import TEXTS, Client


def load(client, number, answers):
    """Ask until nobody answers; note what each answer was."""
    while True:
        try:
            answers.append(client.translate(TEXTS[number % 12]))
        except OSError as error:
            answers.append(error)
            return


def test_a_process_ends_under_load(pair):
    """Every request has its right answer but the last of each thread, which nobody took. A second
    signal changes nothing."""
    code = "from fairseq_specdec.serve.cli import cli_main; cli_main()"
    words = ["--port", "0", "--path", str(pair), "--device", "cpu", "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    process = subprocess.Popen([sys.executable, "-c", code, *words], env=environment, **pipes)
    try:
        url = process.stdout.readline().split()[4]
        address = "127.0.0.1", int(url.strip("/").rpartition(":")[2])
        client = Client(
            SimpleNamespace(url=url, socket=SimpleNamespace(getsockname=lambda: address))
        )
        expected = [client.translate(text)[1]["translatedText"] for text in TEXTS]
        by_thread = [[] for _ in range(8)]
        loads = [
            threading.Thread(target=load, args=(client, *each)) for each in enumerate(by_thread)
        ]
        for each in loads:
            each.start()
        while min(map(len, by_thread)) < 2:
            time.sleep(0.01)
        began = time.monotonic()
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
            time.sleep(0.01)
        assert process.wait(60) == 0 and time.monotonic() - began < 10
        for each in loads:
            each.join()
        for number, answers in enumerate(by_thread):
            *answered, last = answers
            for answer in answered:
                assert answer[0] == 503 or answer[:2] == (200, {"translatedText": expected[number]})
            assert isinstance(last, (ConnectionRefusedError, ConnectionResetError))
        assert process.stderr.read() == process.stdout.read() == ""
    finally:
        process.kill()
        process.communicate()
