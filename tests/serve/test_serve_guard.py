"""Requests that no route sees: other sites, bodies that are too long or odd, clients that stall."""

import contextlib
import json
import re
import socket
import time

import pytest

JSON = "application/json"
GOOD = {"q": "w1", "source": "src", "target": "tgt"}


@pytest.mark.parametrize(
    "body, kind, status, words",
    [
        (b"{", JSON, 400, "no JSON"),
        (b"[1]", JSON, 400, "no JSON object"),
        (b"\xff\xfe", JSON, 400, "no JSON"),
        (b"[" * 4000, JSON, 400, "no JSON"),
        (b'{"q": ' + b"9" * 4000 + b"}", JSON, 400, ""),
        (b"q=w1", "text/plain", 400, "send JSON"),
        (b"q=w1", "", 400, "send JSON"),
        (b"x", "multipart/form-data", 400, ""),
        (b"x", "multipart/form-data; boundary=a", 400, ""),
        (b"--a\r\nContent-Disposition: form-data; name=q; filename=f\r\n\r\nx\r\n--a--\r\n",
         "multipart/form-data; boundary=a", 400, ""),
        (b"--a\r\nContent-Disposition: form-data; name=q\r\n\r\nx\r\n--a--\r\n",
         "multipart/form-data; boundary=a; charset=undefined", 400, "charset"),
        (b"%", "application/x-www-form-urlencoded", 400, "missing q"),
        (b" " * 5000, JSON, 413, "over 4096 bytes"),
    ],
)  # fmt: skip
def test_odd_bodies_are_refused(client, body, kind, status, words):
    answered, answer, _ = client.ask("/translate", body, Content_Type=kind)
    assert answered == status and words in answer["error"] and answer["message"] == answer["error"]


def test_odd_forms_in_a_get_are_refused(client):
    """DeepL's client sends one; a charset that Python has and cannot read ended in a fault."""
    body = b"--a\r\nContent-Disposition: form-data; name=type\r\n\r\ntarget\r\n--a--\r\n"
    kind = "Content-Type: multipart/form-data; boundary=a"
    for charset, status in (("", b" 200 "), ("; charset=undefined", b" 400 ")):
        lines = [f"Host: 127.0.0.1:{client.port}", kind + charset, f"Content-Length: {len(body)}"]
        get = "\r\n".join(["GET /v2/languages HTTP/1.1", *lines, "", ""]).encode() + body
        assert status in exchange(client, get)


def test_the_list_of_routes_loads_nothing(client):
    status, page, headers = client.ask("/docs")
    assert status == 200 and all(path in page for path in client.ask("/openapi.json")[1]["paths"])
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert not re.search("<script|<style|<link|<img|http", page)


def test_odd_paths_and_methods_are_refused(client):
    assert client.ask("/redoc")[0] == 404 and client.ask("/translate/", GOOD)[0] == 404
    status, answer, _ = client.ask("/translate")
    assert status == 405 and answer["error"] == "Method Not Allowed"


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Host": "evil.example"}, 400),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Host": "LOCALHOST:{port}", "Origin": "http://127.0.0.1:{port}"}, 200),
    ],
)
def test_other_sites_are_not_answered(client, headers, status):
    sent = {name: value.format(port=client.port) for name, value in headers.items()}
    answered, answer, _ = client.ask("/translate", GOOD, **sent)
    assert answered == status and ("translatedText" in answer) == (status == 200)


def test_a_link_of_another_site_leads_to_the_page(client):
    assert client.ask("/", Sec_Fetch_Site="cross-site")[0] == 200
    assert client.ask("/", Host="evil.example")[0] == 400


def exchange(client, *parts, wait=0.0):
    """The answer to raw bytes, sent in parts."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", client.port), 30)) as line:
        for part in parts:
            line.sendall(part)
            time.sleep(wait)
        return received(line)


def received(line):
    """An answer, up to the end of its JSON."""
    answer = b""
    while b"}" not in answer:
        got = line.recv(4096)
        assert got, answer
        answer += got
    return answer


def head(client, *lines):
    first = ["POST /translate HTTP/1.1", f"Host: 127.0.0.1:{client.port}", f"Content-Type: {JSON}"]
    return "\r\n".join([*first, *lines, "", ""]).encode()


def test_a_body_in_pieces_is_read_up_to_the_limit(client):
    whole = json.dumps(GOOD).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (whole[:9], whole[9:]))
    start = head(client, "Transfer-Encoding: chunked")
    assert b" 200 " in exchange(client, start, chunks, b"0\r\n\r\n", wait=0.01)
    endless = b"1000\r\n" + b" " * 4096 + b"\r\n"
    assert b" 413 " in exchange(client, start, endless, endless, wait=0.01)


def test_a_body_that_does_not_arrive_is_not_waited_for(client):
    began = time.monotonic()
    answer = exchange(client, head(client, "Content-Length: 100"), b"{", wait=0.01)
    assert b" 408 " in answer and b"did not arrive whole" in answer
    assert 0.4 < time.monotonic() - began < 10
