"""The server: the page, a race over HTTP, and whom it does not answer."""

import base64
import contextlib
import hashlib
import http.client
import json
import re
import socket
import threading
import urllib.error
import urllib.request
from html.parser import HTMLParser

import pytest
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.demo.page import page_of
from fairseq_specdec.demo.server import BODY, HEADERS, DemoServer, Handler
from fairseq_specdec.drafting.nar_block import ReadyNarBlockDrafter

TEXT = text_of(sentences(1, seed=8)[0])


def ask(server, body, path="race", **headers):
    """(status, JSON lines) of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {
        "Content-Type": "application/json",
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    request = urllib.request.Request(server.url + path, data=data, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, [json.loads(line) for line in answer]
    except urllib.error.HTTPError as error:
        return error.code, [json.loads(error.read())]


class Elements(HTMLParser):
    """What could load or run something."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.handlers, self.inline = [], [], [], {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href")]
        self.handlers += [name for name, _ in attributes if name.startswith("on")]
        self.handlers += [name for name, _ in attributes if name == "style"]

    def handle_data(self, data):
        if self.tags and self.tags[-1] in ("script", "style"):
            self.inline.setdefault(self.tags[-1], []).append(data)


def test_the_page_needs_nothing_else(server):
    with urllib.request.urlopen(server.url + "?text=x&run=1", timeout=60) as answer:
        text, headers = answer.read().decode("utf-8"), answer.headers
    elements = Elements(text)
    assert elements.links == ["data:,"] and elements.handlers == []
    assert "http://" not in text and "https://" not in text and "innerHTML" not in text
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and "connect-src 'self'" in policy
    for kind in ("style", "script"):
        code = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.S)
        assert len(code) == 1
        digest = base64.b64encode(hashlib.sha256(code[0].encode("utf-8")).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["Access-Control-Allow-Origin"] is None


def test_an_address_fills_in_the_text_and_starts_nothing(server):
    """A page of another site can send the browser to any address of this one."""
    with urllib.request.urlopen(server.url, timeout=60) as answer:
        script = re.findall(r"<script>(.*?)</script>", answer.read().decode("utf-8"), re.S)[0]
    assert re.findall(r"location\.\w+", script) == ["location.search"]
    assert re.findall(r'asked\.\w+\("(\w+)"\)', script) == ["text"]
    handlers = re.findall(r"addEventListener\(.*?^  \}\);$", script, re.S | re.M)
    started = len(re.findall(r"\brun\(\);", script))
    assert started == sum(len(re.findall(r"\brun\(\);", each)) for each in handlers) == 2


def test_text_of_the_pair_cannot_break_out(racers):
    evil = "</script><script>alert(1)</script> @SCRIPT@ <!-- \u2028"
    odd = racers._replace(examples=[evil], languages=("<b>", "&"))
    text = page_of(odd, 1).body.decode("utf-8")
    assert "alert(1)</script>" not in text and "<b>" not in text and "&lt;b&gt; to &amp;" in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert json.loads(data.group(1))["examples"] == [evil]


def test_a_race(server, racers):
    status, events = ask(server, {"text": TEXT, "strategies": ["gad", "greedy"]})
    assert status == 200 and events[0]["names"] == ["greedy", "gad"]
    ends = [event for event in events if event["event"] == "finish"]
    assert {end["text"] for end in ends} == {racers.translators["gad"].translate(TEXT).text}
    assert events[-1]["event"] == "end" and set(events[-1]["ms"]) == {"greedy", "gad"}
    assert ask(server, {"text": TEXT})[1][0]["names"] == ["greedy", "gad", "gad++"]


def test_a_race_with_a_beam(server, racers):
    status, events = ask(server, {"text": TEXT, "beam": 4})
    assert status == 200 and events[0]["names"] == ["greedy", "gad"]
    ends = [event for event in events if event["event"] == "finish"]
    assert {end["text"] for end in ends} == {racers.at(4)["greedy"].translate(TEXT).text}
    assert any(event["event"] == "block" and event["iteration"]["live"] == 4 for event in events)


def test_blocks_come_while_it_decodes(server, racers, monkeypatch):
    go_on = threading.Event()
    held = racers.translators["greedy"].generator
    opened = held.batch

    @contextlib.contextmanager
    def slow_batch(*arguments, **named):
        with opened(*arguments, **named) as batch:
            iterate, count = batch.iterate, []

            def wait_at_the_third(*most):
                count.append(1)
                if len(count) == 3:
                    assert go_on.wait(60)
                iterate(*most)

            batch.iterate = wait_at_the_third
            yield batch

    monkeypatch.setattr(held, "batch", slow_batch)
    body = json.dumps({"text": TEXT, "strategies": ["greedy"]}).encode()
    request = urllib.request.Request(
        server.url + "race", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            early = [json.loads(answer.readline())["event"] for _ in range(4)]
            assert early == ["start", "go", "block", "block"]
            go_on.set()
            assert json.loads(answer.read().splitlines()[-1])["event"] == "end"
    finally:
        go_on.set()


@pytest.mark.parametrize(
    "body, headers, status, message",
    [
        ({"text": " "}, {}, 400, "type a sentence"),
        ({"text": TEXT, "beam": 2, "strategies": ["gad++"]}, {}, 400, "is not lossless"),
        ({"text": TEXT, "stock": 1}, {}, 400, "true or false"),
        ([TEXT], {}, 400, "send an object"),
        (b"{", {}, 400, "no JSON"),
        (b"\xff", {}, 400, "no JSON"),
        (b"[" * 60000, {}, 400, "no JSON"),
        (b" " * BODY, {}, 400, "no JSON"),
        (b" " * (BODY + 1), {}, 413, "too long"),
        ({"text": TEXT}, {"Content_Type": "text/plain"}, 415, "Content-Type: application/json"),
        ({"text": TEXT}, {"Host": "evil.example"}, 403, "answers at http://127.0.0.1:"),
        ({"text": TEXT}, {"Host": "127.0.0.1"}, 403, "answers at http://127.0.0.1:"),
        ({"text": TEXT}, {"Origin": "http://evil.example"}, 403, "other sites"),
        ({"text": TEXT}, {"Origin": "null"}, 403, "other sites"),
        ({"text": TEXT}, {"Origin": "http://127.0.0.1:1"}, 403, "other sites"),
        ({"text": TEXT}, {"Sec_Fetch_Site": "cross-site"}, 403, "other sites"),
        ({"text": TEXT}, {"Sec_Fetch_Site": "same-site"}, 403, "other sites"),
    ],
)
def test_what_is_refused(server, body, headers, status, message):
    answered, (answer,) = ask(server, body, **headers)
    assert answered == status
    assert message in answer["error"]


def test_the_host_is_checked_for_the_page_too(server):
    for host, status in (
        ("evil.example", 403),
        (f"evil.example:{server.server_port}", 403),
        (f"localhost:{server.server_port}", 200),
    ):
        request = urllib.request.Request(server.url, headers={"Host": host})
        try:
            answered = urllib.request.urlopen(request, timeout=60).status
        except urllib.error.HTTPError as error:
            answered = error.code
        assert answered == status, host


def spoken(server, *lines, body=b""):
    """(status, headers by lower-case name, body) of a request made of these lines."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        line.shutdown(socket.SHUT_WR)
        head, _, content = b"".join(iter(lambda: line.recv(65536), b"")).partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in rest)}
    return int(first.split()[1]), headers, content


@pytest.mark.parametrize(
    "doubled, message",
    [
        ("Host: evil.example", "answers at"),
        ("Origin: http://evil.example", "other sites"),
        ("Sec-Fetch-Site: cross-site", "other sites"),
    ],
)
@pytest.mark.parametrize("ours_first", [True, False])
def test_every_header_of_a_name_is_checked(server, doubled, message, ours_first):
    host = f"127.0.0.1:{server.server_port}"
    ours = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    lines = [f"{name}: {value}" for name, value in ours.items()]
    lines = [*lines, doubled] if ours_first else [doubled, *lines]
    body = json.dumps({"text": TEXT, "strategies": ["gad"]}).encode()
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    status, _, content = spoken(server, "POST /race HTTP/1.1", *lines, body=body)
    assert status == 403 and message in json.loads(content)["error"]


def test_two_hosts_are_checked_for_the_page_too(server):
    ours = f"Host: 127.0.0.1:{server.server_port}"
    assert spoken(server, "GET / HTTP/1.1", ours)[0] == 200
    assert spoken(server, "GET / HTTP/1.1", ours, "Host: evil.example")[0] == 403
    assert spoken(server, "GET / HTTP/1.1")[0] == 403


@pytest.mark.parametrize(
    "line, status",
    [
        ("PUT / HTTP/1.1", 501),
        ("OPTIONS /race HTTP/1.1", 501),
        ("<script> / HTTP/1.1", 501),
        ("HEAD / HTTP/1.1", 501),
        ("GET / HTTP/x", 400),
        ("GET /\r\n", 403),
        ("GET / HTTP/2.0", 505),
        ("GET / 1 2 HTTP/1.1", 400),
        ("GET / HTTP/1.1\r\n" + 101 * "X: 1\r\n" + "X: 1", 431),
    ],
    ids=lambda value: str(value)[:24],
)
def test_other_requests_are_refused_with_the_same_headers(server, line, status):
    answered, headers, content = spoken(server, line, f"Host: 127.0.0.1:{server.server_port}")
    assert answered == status
    assert headers.items() >= {name.lower(): value for name, value in HEADERS.items()}.items()
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["content-type"] == "application/json"
    assert (content == b"") if line.startswith("HEAD") else json.loads(content)["error"]


def test_its_own_page_may_ask(server):
    for host in ("127.0.0.1", "localhost"):
        name = f"{host}:{server.server_port}"
        headers = {"Host": name, "Origin": f"http://{name}", "Sec_Fetch_Site": "same-origin"}
        assert ask(server, {"text": TEXT, "strategies": ["gad"]}, **headers)[0] == 200


def test_elsewhere_there_is_nothing(server):
    assert ask(server, {"text": TEXT}, path="other")[0] == 404
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(server.url + "race", timeout=60)


@pytest.mark.parametrize("length", [None, "x", "-1", "9" * 5000])
def test_odd_lengths(server, length):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.putrequest("POST", "/race")
    connection.putheader("Content-Type", "application/json")
    if length is not None:
        connection.putheader("Content-Length", length)
    connection.endheaders()
    if length == "9" * 5000:
        connection.sock.shutdown(socket.SHUT_WR)
    assert connection.getresponse().status == (413 if length == "9" * 5000 else 411)
    connection.close()


def test_it_listens_to_this_machine_only(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_a_taken_port(server):
    with pytest.raises(
        ValueError, match=f"--port {server.server_port}: already in use; .*--port 0"
    ):
        DemoServer(server.server_port)
    with pytest.raises(ValueError, match="--port 65536: must be from 0 to 65535"):
        DemoServer(65536)


def test_one_race_at_a_time(server):
    server.turn.acquire()
    try:
        timer = threading.Timer(0.3, server.turn.release)
        timer.start()
        events = ask(server, {"text": TEXT, "strategies": ["gad"]})[1]
    finally:
        timer.join()
    assert [event["event"] for event in events[:2]] == ["waiting", "start"]
    assert events[-1]["event"] == "end"
    assert ask(server, {"text": TEXT, "strategies": ["gad"]})[1][0]["event"] == "start"


def test_waiting_has_an_end(server, monkeypatch):
    monkeypatch.setattr("fairseq_specdec.demo.server.PATIENCE", 0.05)
    with server.turn:
        events = ask(server, {"text": TEXT, "strategies": ["gad"]})[1]
    assert [event["event"] for event in events] == ["waiting", "error"]


def test_a_visitor_who_leaves_ends_the_race(server):
    body = json.dumps({"text": TEXT}).encode()
    head = (
        f"POST /race HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as visitor:
        visitor.sendall(head.encode() + body)
        assert visitor.recv(20).startswith(b"HTTP/1.0 200")
    assert server.turn.acquire(timeout=60)
    server.turn.release()


def test_a_silent_connection_is_dropped(server, monkeypatch):
    assert Handler.timeout == 30
    monkeypatch.setattr(Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as visitor:
        visitor.sendall(b"POST /race HT")
        assert visitor.recv(20) == b""


def test_a_failure_is_reported(server, monkeypatch, caplog):
    def fail(*arguments):
        raise RuntimeError("out of <memory>\nand more")

    monkeypatch.setattr(ReadyNarBlockDrafter, "open", fail)
    events = ask(server, {"text": TEXT, "strategies": ["greedy", "gad"]})[1]
    assert events[-1]["event"] == "error"
    assert events[-1]["message"].startswith("Decoding failed (out of <memory>)")
    assert "and more" in caplog.text
    assert not server.turn.locked()
