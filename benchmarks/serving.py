"""What specdec-serve promises under load, kept or not: each promise, what was measured.

    python benchmarks/serving.py [--requests 10000] [--malformed 1000] [--stalled 50] \\
        [-- flags of specdec-serve]

A server in a process of its own is asked the held-out sentences of the demo pair (--texts) on
127.0.0.1, and every answer is compared with the text of the Python interface. Exit status 1 where
a promise is not kept.
"""

import argparse
import asyncio
import json
import pathlib
import random
import sys
import time
from collections import Counter
from typing import Any, NamedTuple

from fairseq_specdec.serve.bench import figures
from fairseq_specdec.serve.bench.figures import loads_of
from fairseq_specdec.serve.bench.load import PATIENCE, UNREAD, Bound, Loader
from fairseq_specdec.serve.bench.run import Measured, process, texts_of
from fairseq_specdec.serve.bench.served import OURS
from fairseq_specdec.serve.cli import translator_of
from fairseq_specdec.serve.flags import get_parser

TEXTS = pathlib.Path(__file__).resolve().parents[1] / "data-bin" / "demo_ende" / "heldout.en"
# Of the time that an answer takes, where many come at 80% of the capacity.
TAIL = 3.0
GROWTH = 0.05
CLIENTS = 8
# Seconds of load before SIGTERM.
BEFORE_END = 2.0


class Promise(NamedTuple):
    """A promise.

    Attributes:
        name: what is promised.
        kept: whether it was.
        result: what was measured, in words.
        figures: the same as numbers; None where there are none.
    """

    name: str
    kept: bool
    result: str
    figures: Any = None


def steady(measured, load, requests):
    """Many requests, fewer than it can bear."""
    answers = measured.load(loads_of(load)[0], Bound(requests, 3600))
    wrong = requests - answers["answered"] + answers["other_texts"]
    p50, p95 = answers["latency"]["50"], answers["latency"]["95"]
    yield Promise(f"{requests} requests at {load}: all answered, all texts right", not wrong,
                  f"{wrong} not", answers)  # fmt: skip
    yield Promise(f"p95 at most {TAIL:g} times p50", p95 <= TAIL * p50,
                  f"{1000 * p95:.1f} and {1000 * p50:.1f} ms: {p95 / p50:.2f}")  # fmt: skip
    growth = answers["memory_growth"]
    yield Promise(f"memory grows by less than {GROWTH:.0%}", growth < GROWTH, f"{growth:+.1%}")


def overload(measured, load, requests, deadline):
    """More than the capacity."""
    answers = measured.load(loads_of(load)[0], Bound(requests, 3600))
    odd = answers["other_texts"] + answers["lost"] + sum(answers["failed"].values())
    most = answers["latency"]["100"]
    text = f"{answers['answered']} answered, {answers['refused']} refused, {odd} others"
    kept = not odd and 0 < answers["refused"] < requests
    yield Promise(f"at {load}: answered rightly or refused with 429", kept, text, answers)
    yield Promise("accepted requests within their deadline", most <= deadline,
                  f"at most {most:.2f} of {deadline:g} s")  # fmt: skip


# ---- malformed requests --------------------------------------------------------------------------

KINDS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/x")
PATHS = ("/translate", "/v2/translate", "/translate/stream", "/v2/languages", "/none")


def malformed(chance, port, languages):
    """The bytes of a request that no server should answer with 200."""
    source, target = languages
    good = {"q": "a", "text": ["a"], "source": source, "target": target, "target_lang": target}
    wrong = [None, 7, -1, [], {}, [[]], "", "\x00", "xx", 1e99, True, ["a", 7], "a" * 6000]
    field = chance.choice(["q", "source", "target", "format", "alternatives"])
    body = json.dumps({**good, field: chance.choice(wrong)}).encode()
    path, kind, method = chance.choice(PATHS), KINDS[0], "POST"
    case = chance.randrange(6)
    if case == 0:  # cut off, and so no JSON
        body = body[: chance.randrange(len(body))]
    elif case == 1:
        body = bytes(chance.randrange(256) for _ in range(chance.randrange(200)))
    elif case == 2:
        kind = chance.choice(KINDS[1:])
    elif case == 3:
        path = "/translate"
        method = chance.choice(["GET", "PUT", "DELETE", "PATCH", "FROB"])
    elif case == 4:
        path = "/" + "".join(chance.choice("abc/%.?&\\~") for _ in range(chance.randrange(40)))
    else:  # a field of /translate that makes no sense
        path = "/translate"
        given = {"q": [7], "source": 7, "target": "xx", "format": "html", "alternatives": -1}
        body = json.dumps({**good, field: given[field]}).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\n"
    if chance.random() < 0.05:
        head = head.replace("HTTP/1.1", chance.choice(["HTTP/9", "", "\x01"]))
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def sent_malformed(loader, port, languages, count):
    """What became of so many: a counter of statuses, those without {error} apart."""
    chance, statuses = random.Random(7), Counter()
    while sum(statuses.values()) < count:
        request = malformed(chance, port, languages)
        try:
            asked = loader.exchange(request)
            status, _, answer = await asyncio.wait_for(asked, PATIENCE)
        except (OSError, EOFError, ValueError, asyncio.TimeoutError):
            statuses["lost"] += 1
            continue
        explained = isinstance(answer, dict) and bool(answer.get("error"))
        statuses[status if explained or status == 200 else f"{status} without error"] += 1
    await loader.close()
    return statuses


def garbage(loader, port, languages, count):
    """Requests that are no requests."""
    statuses = asyncio.run(sent_malformed(loader, port, languages, count))
    kept = all(isinstance(status, int) and 400 <= status < 500 for status in statuses)
    text = ", ".join(f"{status}: {number}" for status, number in sorted(statuses.items(), key=str))
    yield Promise(f"{count} malformed requests: 4xx with {{error}}", kept, text)


# ---- stalled connections -------------------------------------------------------------------------


async def beside_stalled(loader, port, count, bound):
    """Answers of some clients while so many connections stand still, and those still open."""
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 9\r\n\r\n"
    parts = (b"", head[:20].encode(), head[:-2].encode(), head.encode() + b"{")
    stalled = []
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(parts[number % len(parts)])
        stalled.append((reader, writer))
    answers = await loader.closed(CLIENTS, bound)
    for _, writer in stalled:
        writer.close()
    await loader.close()
    return answers


def stalling(measured, loader, port, count, bound):
    """Connections on which nothing comes, beside clients."""
    alone = measured.load(loads_of(str(CLIENTS))[0], bound)["latency"]["95"]
    answers = asyncio.run(beside_stalled(loader, port, count, bound))
    wrong = sum(not each.right for each in answers)
    beside = figures.percentile([each.seconds for each in answers], 95)
    text = f"{wrong} wrong; p95 {1000 * beside:.1f} ms, without them {1000 * alone:.1f}"
    yield Promise(f"{count} stalled connections harm nobody", not wrong, text)


# ---- the end -------------------------------------------------------------------------------------


async def until_the_end(loader, server):
    """(seconds before the end at which a request was sent, its answer) of clients, SIGTERM amid."""
    answers, ended = [], []

    async def client(number):
        status = 200
        while status in (200, 429):
            sent = time.monotonic()
            answer = await loader.ask(number)
            answers.append((sent, answer))
            number, status = number + 1, answer.status

    async def end():
        await asyncio.sleep(BEFORE_END)
        ended.append(time.monotonic())
        server.terminate()

    await asyncio.gather(end(), *map(client, range(2 * CLIENTS)))
    await loader.close()
    return [(ended[0] - sent, answer) for sent, answer in answers], time.monotonic() - ended[0]


def ending(loader, server):
    """SIGTERM under load."""
    answers, seconds = asyncio.run(until_the_end(loader, server))
    refused = (UNREAD, 429, 503)
    accepted = [each for before, each in answers if before > 0 and each.status not in refused]
    wrong = sum(not each.right for each in accepted)
    later = Counter(each.status for before, each in answers if before <= 0)
    wrong += sum(each.status == 200 and not each.right for before, each in answers if before <= 0)
    text = f"{len(accepted)} accepted, {wrong} wrong; sent later {dict(later)}; {seconds:.2f} s"
    yield Promise("SIGTERM under load: every accepted request answered", not wrong, text)
    server.wait(60)
    status = server.returncode
    yield Promise("the process ends by itself", status in (0, -15), f"status {status}")


def promises(words, texts, requests, malformed_requests, stalled, loads=("80%", "200%")):
    """Yield every ``Promise``.

    Args:
        words: flags of specdec-serve.
        texts: a file with a text on each line.
        requests: of the first load; half as many of the second.
        malformed_requests, stalled: how many.
        loads: shares of the capacity, below and above it.
    """
    args = get_parser().parse_args(words)
    asked = texts_of(str(texts), translator_of(args))
    with process(OURS, words) as (server, port):
        measured = Measured(port, asked, Bound(requests, 3600))
        loader = Loader(port, *asked)
        few = Bound(max(1, requests // 10), 3600)
        many = max(1, requests // 2)
        filled = measured.fill()
        yield Promise("capacity", True, f"{filled['per_second']:.1f} a second", filled)
        yield from steady(measured, loads[0], requests)
        yield from overload(measured, loads[1], many, args.max_deadline)
        yield from garbage(loader, port, asked.languages, malformed_requests)
        yield from stalling(measured, loader, port, stalled, few)
        yield from ending(loader, server)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", default=TEXTS, help="a text on each line (default: %(default)s)")
    for name, count in (("requests", 10000), ("malformed", 1000), ("stalled", 50)):
        parser.add_argument(f"--{name}", type=int, default=count, help="(default: %(default)s)")
    parser.add_argument("--json", help="write the figures here (default: do not)")
    parser.add_argument("words", nargs="*", help="flags of specdec-serve, after --")
    options = parser.parse_args()
    counts = (options.requests, options.malformed, options.stalled)
    results = []
    print("| promise | kept | result |\n|---|---|---|")
    for each in promises(options.words, options.texts, *counts):
        results.append(each)
        print(f"| {each.name} | {'yes' if each.kept else 'NO'} | {each.result} |", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps([each._asdict() for each in results]))
    return 0 if all(each.kept for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
