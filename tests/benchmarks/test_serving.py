"""benchmarks/serving.py: what specdec-serve promises, in small; and that broken promises show."""

import asyncio
import random
import re

import pytest
import serving
from toy_pair import write_pair

from fairseq_specdec.serve.bench.load import LOST, UNREAD, Answer

# How long anything takes is no matter of a test.
TIMED = "p95 at most"


@pytest.mark.slow
def test_what_is_promised_is_kept(tmp_path):
    pair = write_pair(tmp_path)
    words = ["--path", str(pair), "--device", "cpu", "--workers", "2", "--max-wait", "0.2"]
    words += ["--max-requests", "4000", "--max-connections", "4000"]
    texts = pair / "test.src-tgt.src"
    promises = list(serving.promises(words, texts, 1200, 1000, 50, ("30%", "2000%")))
    broken = [each for each in promises if not each.kept and not each.name.startswith(TIMED)]
    assert broken == [] and len(promises) == 10


class Scripted:
    """In place of a loader or a measured server: gives these."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def load(self, load, bound):
        return self.answers.pop(0)

    async def exchange(self, request):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return (answer[0], {}, answer[1])

    async def close(self):
        pass


GOOD = {
    "answered": 100, "other_texts": 0, "refused": 0, "failed": {}, "lost": 0,
    "latency": {"50": 1.0, "95": 3.0, "100": 5.0}, "memory_growth": 0.049,
}  # fmt: skip


@pytest.mark.parametrize(
    "figures, kept",
    [
        ({}, [True, True, True]),
        ({"answered": 99, "lost": 1}, [False, True, True]),
        ({"other_texts": 1}, [False, True, True]),
        ({"latency": {"50": 1.0, "95": 3.1}}, [True, False, True]),
        ({"memory_growth": 0.05}, [True, True, False]),
    ],
)
def test_a_steady_load(figures, kept):
    promises = serving.steady(Scripted({**GOOD, **figures}), "80%", 100)
    assert [each.kept for each in promises] == kept


@pytest.mark.parametrize(
    "figures, kept",
    [
        ({"answered": 50, "refused": 50}, [True, True]),
        ({}, [False, True]),  # nobody was refused
        ({"answered": 0, "refused": 100, "latency": {"100": 0.0}}, [False, True]),
        ({"refused": 50, "failed": {"504": 1}}, [False, True]),
        ({"refused": 50, "other_texts": 1}, [False, True]),
        ({"refused": 50, "lost": 1, "latency": {"100": 5.1}}, [False, False]),
    ],
)
def test_twice_the_capacity(figures, kept):
    promises = serving.overload(Scripted({**GOOD, **figures}), "200%", 100, 5.0)
    assert [each.kept for each in promises] == kept


@pytest.mark.parametrize(
    "answer, kept",
    [
        ((400, {"error": "x"}), True),
        ((400, {}), False),
        ((400, "error"), False),
        ((200, {"error": "x"}), False),
        ((500, {"error": "x"}), False),
        (EOFError(), False),
    ],
)
def test_malformed_requests(answer, kept):
    loader = Scripted((404, {"error": "x"}), answer)
    (promise,) = serving.garbage(loader, 1, ("src", "tgt"), 2)
    assert promise.kept == kept


def test_malformed_requests_differ():
    chance = random.Random(1)
    made = {serving.malformed(chance, 80, ("src", "tgt")) for _ in range(500)}
    assert len(made) > 300
    assert {re.match(rb"\w+", each)[0] for each in made} >= {b"GET", b"POST", b"FROB"}


class Ending:
    """A loader and a server: what is sent after the end is lost."""

    returncode = -15

    def __init__(self, wrong):
        self.wrong = wrong
        self.ended = False

    async def ask(self, number):
        ended = self.ended
        await asyncio.sleep(0.1)
        if ended:
            return Answer(LOST, 0, False)
        wrong, self.wrong = self.wrong, None
        return wrong or Answer(200, 1, True)

    async def close(self):
        pass

    def terminate(self):
        self.ended = True

    def wait(self, seconds):
        pass


@pytest.mark.parametrize("status", [None, 200, 500, LOST, UNREAD])
def test_the_end(status, monkeypatch):
    monkeypatch.setattr(serving, "BEFORE_END", 0.3)
    server = Ending(None if status is None else Answer(status, 1, False))
    answers, process = serving.ending(server, server)
    assert answers.kept == (status in (None, UNREAD)) and process.kept
