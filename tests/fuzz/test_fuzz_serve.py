"""Requests of any fields, headers and bytes: specdec-serve answers or refuses each, and lives."""

import json
import re
import socket
import urllib.parse

import pytest

pytest.importorskip("fastapi")

from damage import damaged  # noqa: E402
from served import serving  # noqa: E402

POSTS = (
    "/translate", "/translate/stream", "/v2/translate", "/v2/languages", "/languages", "/detect",
    "/race", "/translate?q=w1&q=%ff&source=auto", "/x",
)  # fmt: skip
GETS = (
    "/languages", "/v2/languages?type=target", "/v2/languages?type=%00", "/health", "/ready",
    "/metrics", "/openapi.json", "/", "/translate", "/docs", "/v2/usage",
    "/frontend/settings", "/..%2f", "/?api_key=x",
)  # fmt: skip
PIECES = (
    b"GET", b"POST", b" / ", b"/race", b"HTTP/1.1", b"\r\n", b"\r\n\r\n", b"\x00", b"\xff" * 9,
    b"Host: evil.example\r\n", b"Origin: null\r\n", b"Content-Length: -1\r\n", b"[" * 999, b"{}",
    b"Content-Length: 9999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b'"beam": 1e999,',
    b"A" * 70000, b"X-Deadline: nan\r\n", b"Expect: 100-continue\r\n", b"\xed\xa0\x80", b"\\ud800",
)  # fmt: skip
FIELDS = (
    "q", "text", "strategies", "beam", "source", "target", "source_lang", "target_lang",
    "alternatives", "format", "api_key", "formality", "glossary_id", "tag_handling",
    "split_sentences", "\x00",
)  # fmt: skip
SOUND = {"q": "w1 w2", "text": ["w1"], "source": "src", "target": "tgt", "target_lang": "tgt"}
VALUES = (
    None, True, "", " ", "w1", "src", "tgt", "w1\u2028w2\r\n", "\ud800", "\u202e\x1b[2J\x00", -1,
    2**70, 1e308, float("nan"), float("inf"), "9" * 5000, [], ["w1", 2], ["w1"] * 200, {"q": {}},
    [[]] * 50, "w1 " * 3000, "\U0001f600" * 300,
)  # fmt: skip
JSON = "application/json"
KINDS = (JSON, f"{JSON}; charset=utf-16", "application/x-www-form-urlencoded")
DEEP = "deep"
CHARSETS = ("", "; charset=idna", "; charset=undefined", "; charset=hex", "; charset=punycode")
EXTRA = ("X-Deadline: nan", "X-Deadline: 1e-9", "X-Deadline: -1", "X-Deadline: 9" + "9" * 400,
         "Authorization: \x80", "Origin: http://[", "Origin: null", "Sec-Fetch-Site: none",
         "Expect: 100-continue", "Connection: upgrade\r\nUpgrade: websocket",
         "Transfer-Encoding: chunked", "Content-Length: 3", "Content-Encoding: gzip",
         "Host: [::1", "Host: 127.0.0.1:99999", "Cookie: " + "a" * 9000)  # fmt: skip
# Statuses of docs/serving.md; 500 is none of them here, since decoding does not fail.
# Of uvicorn and of starlette's TrustedHostMiddleware.
PLAIN = ("Invalid HTTP request", "Invalid host header", "Service Unavailable")
STATUSES = {"200", "400", "403", "404", "405", "408", "413", "429", "503", "504"}


def asked(port, verb, path, body, kind=JSON):
    """A sound request as bytes."""
    lines = [f"{verb} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Type: {kind}"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def answer(port, request, is_whole):
    """All that comes back; b"" where the connection is closed, or stays open, without a word.

    Args:
        port: of the server.
        request: bytes. Those that end before a request's head does are waited for in vain.
        is_whole: whether so many bytes are an answer.
    """
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=3) as line:
        try:
            line.sendall(request)
            while not is_whole(received):
                part = line.recv(65536)
                if not part:
                    break
                received += part
        except OSError:  # it closed with bytes of ours unread, or nothing came
            pass
    return received


@pytest.fixture(scope="module")
def port(pair):
    with serving("--path", pair, "--max-arrival", 0.2, "--nbest", 2, "--beam", 2) as client:
        yield client.port


def fields(random):
    chosen = dict(SOUND)
    for _ in range(random.randint(0, 3)):
        chosen[random.choice(FIELDS)] = random.choice(VALUES)
    for name in random.sample(sorted(chosen), random.randint(0, 1)):
        del chosen[name]
    return chosen


def body_of(random, kind):
    chosen = fields(random)
    if "json" in kind:
        whole = random.choice((chosen, chosen, [chosen], [], DEEP))
        if whole is DEEP:  # as deep as the reader of JSON takes, or a little deeper
            depth = random.randint(700, 990)
            chosen[random.choice(FIELDS)] = DEEP
            deep = "[" * depth + "]" * depth
            return json.dumps(chosen).replace(f'"{DEEP}"', deep).encode()
        return json.dumps(whole).encode()
    texts = {name: str(value).encode("utf-8", "surrogatepass") for name, value in chosen.items()}
    return urllib.parse.urlencode(texts).encode()


def request_of(random, port):
    if random.random() < 0.2:
        request = asked(port, "GET", random.choice(GETS), b"")
    else:
        kind = random.choice(KINDS)
        body = body_of(random, kind)
        request = asked(port, "POST", random.choice(POSTS), body, kind + random.choice(CHARSETS))
    if random.random() < 0.3:
        head, blank, body = request.partition(b"\r\n\r\n")
        request = head + b"\r\n" + random.choice(EXTRA).encode("latin-1") + blank + body
    return damaged(random, request, PIECES) if random.random() < 0.4 else request


def parts_of(received):
    """(head, content) of the first answer; a head without its end is b""."""
    head, blank, content = received.partition(b"\r\n\r\n")
    if head == b"HTTP/1.1 100 Continue":
        return parts_of(content)
    return (head, content) if blank else (b"", b"")


def is_whole(received):
    head, content = parts_of(received)
    length = re.search(rb"\r\n(?i:content-length): (\d+)", head)
    if length:
        return len(content) >= int(length.group(1))
    return bool(head) and content.endswith(b"0\r\n\r\n")


def checked(received, seed):
    """The status of the first answer, which is as the interface says."""
    head, content = parts_of(received)
    if not head:
        return "closed"
    status = head[9:12].decode()
    assert head.startswith(b"HTTP/1.1 ") and status in STATUSES, (seed, received[:500])
    if status[0] in "45":
        # Behind it there may be the answer to what a change left of the body.
        text = content.decode("utf-8")
        if not text.startswith(PLAIN) and text[:1] == "{":
            error, _ = json.JSONDecoder().raw_decode(text)
            assert error["error"] and error["message"] == error["error"], (seed, received[:500])
    return status


def test_requests(fuzz, port):
    sound = asked(port, "POST", "/translate", json.dumps(SOUND).encode())
    wanted = parts_of(answer(port, sound, is_whole))[1]
    assert json.loads(wanted)["translatedText"]
    for seed in fuzz.seeds():
        random = fuzz.random(seed)
        received = answer(port, request_of(random, port), is_whole)
        fuzz.counts[checked(received, seed)] += 1
        if seed % 20 == 0:
            assert parts_of(answer(port, sound, is_whole))[1] == wanted, seed
