"""specdec-serve under load: every answer is compared with the one that was expected.

    pip install locust
    specdec-serve demo_ende --workers 2 --max-wait 30
    locust -f benchmarks/locustfile.py --headless --host http://127.0.0.1:8700 \\
        --texts data-bin/demo_ende/heldout.en --source-lang en --target-lang de \\
        --users 8 --run-time 60s --csv out

Without --expected, each text is asked for once, alone, before the load begins. --per-second gives
each user a rate instead of its next request after an answer. Status 429 counts as a failure of its
own; locust's exit status is 1 where anything failed.
"""

import itertools
import os
import pathlib

import requests
from locust import FastHttpUser, constant_throughput, events, task
from locust.exception import StopTest

TOKEN = os.environ.get("SPECDEC_SERVE_TOKEN")
HEADERS = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}


@events.init_command_line_parser.add_listener
def add_flags(parser):
    parser.add_argument("--texts", required=True, help="a text on each line")
    parser.add_argument("--expected", default="", help="their translations, a line each")
    parser.add_argument("--source-lang", dest="source", required=True)
    parser.add_argument("--target-lang", dest="target", required=True)
    parser.add_argument("--per-second", type=float, default=0.0, help="requests of each user")


def lines_of(path):
    return [line for line in pathlib.Path(path).read_text("utf-8").split("\n") if line.strip()]


@events.test_start.add_listener
def prepare(environment, **_):
    """Which answer each text should have."""
    options = environment.parsed_options
    texts = lines_of(options.texts)
    bodies = [{"q": each, "source": options.source, "target": options.target} for each in texts]
    if options.expected:
        answers = lines_of(options.expected)
        if len(answers) != len(texts):
            raise StopTest(f"--expected: {len(answers)} lines, --texts has {len(texts)}")
    else:
        url = f"{environment.host}/translate"
        answered = [requests.post(url, json=body, headers=HEADERS, timeout=60) for body in bodies]
        answers = [each.json()["translatedText"] for each in answered]
    Client.pairs = itertools.cycle(zip(bodies, answers))
    if options.per_second:
        Client.wait_time = constant_throughput(options.per_second)


class Client(FastHttpUser):
    """Asks one text after another."""

    pairs = iter(())

    @task
    def translate(self):
        body, expected = next(Client.pairs)
        asked = {"json": body, "headers": HEADERS, "catch_response": True}
        with self.client.post("/translate", **asked) as answer:
            if answer.status_code != 200:
                answer.failure(f"status {answer.status_code}")
            elif answer.json()["translatedText"] != expected:
                answer.failure("another text than expected")
