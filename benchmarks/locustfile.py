"""specdec-serve under load: every answer is compared with the one that was expected.

    pip install locust
    specdec-serve demo_ende --workers 2 --max-wait 30
    locust -f benchmarks/locustfile.py --headless --host http://127.0.0.1:8700 \\
        --texts data-bin/demo_ende/heldout.en --source-lang en --target-lang de \\
        --users 8 --run-time 60s --csv out

Eight of ten requests are a line, one is four lines in one text, and one closes its connection
within 0.1 s. For several models --texts and the languages have several values. Each text is asked
for once, alone, before the load begins. --per-second gives each user a rate instead of its next
request after an answer. locust's exit status is 1 where anything failed, a status 429 too.
"""

import contextlib
import itertools
import os
import pathlib
import random

import requests
from locust import FastHttpUser, constant_throughput, events, task

TOKEN = os.environ.get("SPECDEC_SERVE_TOKEN")
HEADERS = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}


@events.init_command_line_parser.add_listener
def add_flags(parser):
    parser.add_argument("--texts", required=True, nargs="+", help="files with a text on each line")
    parser.add_argument("--source-lang", dest="source", required=True, nargs="+")
    parser.add_argument("--target-lang", dest="target", required=True, nargs="+")
    parser.add_argument("--per-second", type=float, default=0.0, help="requests of each user")


@events.test_start.add_listener
def prepare(environment, **_):
    """Which answer each text should have."""
    options = environment.parsed_options
    lines, paragraphs = [], []
    for path, source, target in zip(options.texts, options.source, options.target):
        texts = [line for line in pathlib.Path(path).read_text("utf-8").split("\n") if line.strip()]
        for kind, size in ((lines, 1), (paragraphs, 4)):
            for i in range(0, len(texts), size):
                text = "\n".join(texts[i : i + size])
                body = {"q": text, "source": source, "target": target}
                answer = requests.post(f"{environment.host}/translate", json=body, headers=HEADERS)
                kind.append((body, answer.json()["translatedText"]))
    Client.lines, Client.paragraphs = (
        itertools.cycle(random.sample(kind, len(kind))) for kind in (lines, paragraphs)
    )
    if options.per_second:
        Client.wait_time = constant_throughput(options.per_second)


class Client(FastHttpUser):
    """Asks one text after another."""

    @task(9)
    def ask(self):
        kind = "paragraphs" if random.random() < 1 / 9 else "lines"
        self.check(kind, *next(getattr(Client, kind)))

    @task(1)
    def leave(self):
        body, seconds = next(Client.paragraphs)[0], random.uniform(0.001, 0.1)
        with contextlib.suppress(requests.Timeout):
            requests.post(f"{self.host}/translate", json=body, headers=HEADERS, timeout=seconds)

    def check(self, name, body, expected):
        with self.client.post(
            "/translate", name=name, json=body, headers=HEADERS, catch_response=True
        ) as answer:
            if answer.status_code != 200:
                answer.failure(f"status {answer.status_code}")
            elif answer.json()["translatedText"] != expected:
                answer.failure("another text than expected")
