"""The page, and races: strategies one after another, fairseq itself among them."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import threading

import pytest
from served import TEXTS, serving

from fairseq_specdec.drafting.nar_block import ReadyNarBlockDrafter
from fairseq_specdec.hub.stock import stock_translator
from fairseq_specdec.serve import race

TEXT = TEXTS[0]


@pytest.fixture(scope="module")
def demo(pair):
    """Whole drafts: else the toys' do not pay, and those of a race depend on the races before."""
    words = ["--top-beta", 3, "--tau", 3.0, "--draft-budget", 0, "--beam", 1]
    with serving(pair, "--demo", *words, "--max-characters", 400) as client:
        yield client


def asked(client, text=TEXT, **fields):
    """The events of a race."""
    body = {"text": text, "source": "src", "target": "tgt", **fields}
    status, answer, _ = client.ask("/race", body)
    assert status == 200, answer
    return [json.loads(line) for line in answer.splitlines()]


def data_of(client):
    page = client.ask("/")[1]
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))


def test_a_demo_races_all_that_the_model_allows(demo):
    (pair,) = data_of(demo)["pairs"]
    names = pair["strategies"]
    assert {"greedy", "iad", "lookup", "gad", "gad++", "nar"} <= set(names) and pair["stock"]
    assert not {"none", "specdec", "sps", "blockwise", "calm"} & set(names)
    *events, end = asked(demo, stock=True)
    assert [e["name"] for e in events if e["event"] == "go"] == names
    assert [e["name"] for e in events if e["event"] == "timed"][:-3] == names * race.REPEATS
    assert end["event"] == "end" and list(end["runs"]) == [*names, race.STOCK]
    for name, run in end["runs"].items():
        if name != race.STOCK:
            parts = [e["iteration"] for e in events if e["event"] == "block" and e["name"] == name]
            flags = demo.service.racers[name]
            hub = demo.service.translator.translate(TEXT, True, strategy=name, **flags)
            assert run["text"] == hub.text and run["tokens"] == len(hub.trace.output)
            assert len(parts) == len(hub.trace.iterations)
        lossless = name not in ("gad++", "nar")
        assert run["ms"] > 0 and (not lossless or run["text"] == end["runs"]["greedy"]["text"])


def test_a_beam_races_and_is_fairseqs(demo):
    *events, end = asked(demo, strategies=["greedy", "gad"], beam=4, stock=True)
    assert any(e["event"] == "block" and e["iteration"]["live"] == 4 for e in events)
    texts = {run["text"] for run in end["runs"].values()}
    assert (
        texts == {stock_translator(demo.service.translator, 4)(TEXT)[0]} and len(end["runs"]) == 3
    )


def test_another_server_races_against_greedy(client):
    (pair,) = data_of(client)["pairs"]
    assert pair["strategies"] == ["greedy", "gad"] and not pair["stock"]
    assert asked(client)[-1]["event"] == "end"
    for fields, says in (
        ({"strategies": ["nar"]}, "there are greedy, gad; start the server with --demo"),
        ({"stock": True}, "start with --demo"),
    ):
        status, answer, _ = client.ask("/race", {"text": TEXT, "target": "tgt", **fields})
        assert status == 400 and says in answer["error"]


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"text": ""}, "missing text"),
        ({"text": "w1 " * 200}, "600 characters, at most 400"),
        ({"text": ["w1"]}, "valid string"),
        ({"target": "src"}, "there is tgt"),
        ({"beam": 9}, "less than or equal to 8"),
        ({"beam": 0}, "greater than or equal to 1"),
        ({"strategies": "gad"}, "valid list"),
        ({"stock": "x"}, "valid boolean"),
    ],
)
def test_what_cannot_race_is_refused(demo, fields, says):
    status, answer, _ = demo.ask("/race", {"text": "w1", "target": "tgt", **fields})
    assert status == 400 and says in answer["error"]


def test_failures_are_events(demo, monkeypatch, caplog):
    (event,) = asked(demo, "w1 " * 130, strategies=["greedy"])[1:]
    assert event["event"] == "error" and "64" in event["message"]

    def fail(*arguments):
        raise RuntimeError(TEXT)

    monkeypatch.setattr(ReadyNarBlockDrafter, "open", fail)
    event = asked(demo, strategies=["gad"])[-1]
    assert event["event"] == "error" and "Decoding failed (RuntimeError)" in event["message"]
    assert TEXT not in caplog.text
    monkeypatch.undo()
    assert asked(demo, strategies=["gad"])[-1]["event"] == "end"


def test_one_race_at_a_time(demo, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    raced = race.raced

    def slow(*arguments):
        begun.set()
        assert go_on.wait(60)
        yield from raced(*arguments)

    monkeypatch.setattr(race, "raced", slow)
    first = threading.Thread(target=asked, args=(demo,), kwargs={"strategies": ["greedy"]})
    first.start()
    assert begun.wait(60)
    monkeypatch.setattr(race, "PATIENCE", 0.05)
    waited = asked(demo, strategies=["greedy"])
    monkeypatch.undo()
    threading.Timer(0.1, go_on.set).start()
    events = asked(demo, strategies=["greedy"])
    first.join()
    assert [event["event"] for event in waited] == ["waiting", "error"]
    assert [event["event"] for event in events[:2]] == ["waiting", "go"]
    assert events[-1]["event"] == "end"


def test_a_visitor_who_leaves_ends_the_race(demo):
    body = json.dumps({"text": TEXT, "target": "tgt"}).encode()
    lines = ["POST /race HTTP/1.1", f"Host: 127.0.0.1:{demo.port}"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    with socket.create_connection(("127.0.0.1", demo.port)) as line:
        line.sendall("\r\n".join(lines).encode() + body)
        assert line.recv(12) == b"HTTP/1.1 200"
    assert asked(demo, strategies=["greedy"])[-1]["event"] == "end"


def test_the_page_loads_nothing_and_runs_nothing_else(demo):
    status, text, headers = demo.ask("/?text=x")
    assert status == 200 and not re.search(r"https?://|innerHTML|eval\(|<iframe|<img", text)
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    script = re.findall(r"<script>(.*?)</script>", text, re.S)[0]
    assert re.findall(r"location\.\w+", script) == ["location.search"], "nothing else is read"
    assert script.count('.get("text")') == 1


def test_specdec_demo_is_a_name_of_it(pair, tmp_path):
    code = "from fairseq_specdec.serve.cli import demo_main; demo_main()"
    words = ["--port", "0", "--strategy", "x", str(pair)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=str(tmp_path)
    )
    assert "specdec-serve: error: " in done.stderr and "strategy x" in done.stderr


def test_a_demo_pair_has_examples(pair, monkeypatch, tmp_path):
    lines = ["short", *[f"{n} {'w1 ' * 20}" for n in range(5)], "w1 " * 50]
    for name in ("verifier.pt", "dict.src.txt", "dict.tgt.txt"):
        (tmp_path / name).symlink_to(pathlib.Path(pair) / name)
    (tmp_path / "heldout.src").write_text("\n".join(lines), encoding="utf-8")
    with serving(tmp_path, "--demo", "-s", "src", "-t", "tgt") as client:
        (found,) = data_of(client)["pairs"]
    assert [line.split()[0] for line in found["examples"]] == ["0", "1", "2"]
