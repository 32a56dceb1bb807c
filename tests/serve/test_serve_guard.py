"""Requests that are refused: other sites, odd or long bodies, wrong fields; clients that stall."""

import contextlib
import json
import socket
import time

import pytest

JSON = "application/json"
GOOD = {"q": "w1", "source": "src", "target": "tgt"}


@pytest.mark.parametrize(
    "body, kind, status, words",
    [
        (b"{", JSON, 400, "no JSON object"),
        (b"\xff\xfe", JSON, 400, "no JSON object"),
        (b"[" * 4000, JSON, 400, "no JSON object"),
        *((b'{"q": ' + b"[" * n + b"]" * n + b"}", JSON, 400, "") for n in (500, 740, 980)),
        (b"q=w1", "text/plain", 400, "send JSON"),
        (b"x", "multipart/form-data; boundary=a", 400, "damaged"),
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


@pytest.mark.parametrize(
    "path, fields, words",
    [
        ("/translate", {"q": ""}, "missing q"),
        ("/translate", {"q": ["w1"] * 13}, "13 texts, at most 12"),
        ("/translate", {"q": "w1 " * 200}, "600 characters, at most 400"),
        ("/translate", {"source": None}, "missing source"),
        ("/translate", {"source": "\ud800" * 100}, "source '\\ud800"),
        ("/translate", {"target": "src"}, "target 'src' is not supported; there is tgt"),
        ("/translate", {"format": "html"}, "format 'html': Input should be 'text'"),
        ("/translate", {"alternatives": -1}, "greater than or equal to 0"),
        ("/translate", {"alternatives": 2}, "there are 1; start the server with --beam 3 --nbest"),
        ("/translate/stream", {"q": ["w1"]}, "one text"),
        ("/translate/stream", {"alternatives": 1}, "one text"),
        ("/v2/translate", {"target_lang": None}, "missing target_lang"),
        ("/v2/translate", {"source_lang": "TGT"}, "there is src"),
        ("/v2/translate", {"text": "w1 " * 130, "split_sentences": "0"}, "model reads 64 tokens"),
        ("/v2/translate", {"split_sentences": "2"}, "split_sentences '2': Input should be '0'"),
        ("/v2/translate", {"tag_handling": "xml"}, "tag_handling 'xml': Input should be None"),
        ("/race", {"strategies": ["nar"]}, "'nar' is not loaded; there are greedy, gad; start the"),
        ("/race", {"stock": True}, "'fairseq itself' is not loaded"),
        ("/race", {"beam": 9}, "less than or equal to 8"),
    ],
)
def test_what_cannot_be_honoured_is_refused(client, path, fields, words):
    usual = {**GOOD, "text": "w1", "target_lang": "TGT"}
    status, answer, _ = client.ask(path, {**usual, **fields})
    assert status == 400 and words in answer["error"] == answer["message"]
    assert len(answer["error"]) < 130


def test_odd_paths_and_methods_are_refused(client):
    assert client.ask("/docs")[0] == client.ask("/translate/", GOOD)[0] == 404
    status, answer, _ = client.ask("/translate")
    assert status == 405 and answer["error"] == "Method Not Allowed"


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Host": "evil.example"}, 400),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Host": "LOCALHOST:{port}", "Origin": "http://127.0.0.1:{port}"}, 200),
    ],
)
def test_other_sites_are_not_answered(client, headers, status):
    sent = {name: value.format(port=client.port) for name, value in headers.items()}
    answered, answer, _ = client.ask("/translate", GOOD, **sent)
    assert answered == status and ("translatedText" in answer) == (status == 200)


def test_a_link_of_another_site_leads_to_the_page(client):
    assert client.ask("/", Sec_Fetch_Site="cross-site")[0] == 200


def exchange(client, *parts):
    """The answer to a request's head, without its first lines, and parts of its body, sent one
    after another."""
    head = f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nContent-Type: {JSON}\r\n"
    answer = b""
    with contextlib.closing(socket.create_connection(("127.0.0.1", client.port), 30)) as line:
        for part in (head.encode(), *parts):
            line.sendall(part)
            time.sleep(0.01)
        while b"}" not in answer:
            answer += line.recv(4096) or pytest.fail(f"closed after {answer}")
    return answer


def test_a_body_in_pieces_is_read_up_to_the_limit(client):
    whole = json.dumps(GOOD).encode()
    start, end = b"Transfer-Encoding: chunked\r\n\r\n", b"0\r\n\r\n"
    chunks = (b"%x\r\n%b\r\n" % (len(part), part) for part in (whole[:9], whole[9:]))
    assert b" 200 " in exchange(client, start, *chunks, end)
    endless = b"1000\r\n" + b" " * 4096 + b"\r\n"
    assert b" 413 " in exchange(client, start, endless, endless)


def test_a_body_that_does_not_arrive_is_not_waited_for(client):
    began = time.monotonic()
    answer = exchange(client, b"Content-Length: 100\r\n\r\n{")
    assert b" 408 " in answer and b"did not arrive whole" in answer
    assert 0.4 < time.monotonic() - began < 10
