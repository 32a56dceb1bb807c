"""Requests by mutation, and what comes back on a connection."""

import socket

PIECES = (
    b"GET", b"POST", b" / ", b"/race", b"HTTP/1.1", b"\r\n", b"\r\n\r\n", b"\x00", b"\xff" * 9,
    b"Host: evil.example\r\n", b"Origin: null\r\n", b"Content-Length: -1\r\n", b"[" * 999, b"{}",
    b"Content-Length: 9999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b'"beam": 1e999,',
    b"A" * 70000, b"X-Deadline: nan\r\n", b"Expect: 100-continue\r\n", b"\xed\xa0\x80", b"\\ud800",
)  # fmt: skip


def asked(port, verb, path, body, kind="application/json"):
    """A sound request as bytes."""
    lines = [f"{verb} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Type: {kind}"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def mutated(random, request):
    """With one to four changes: something put in, taken out, or repeated."""
    for _ in range(random.randint(1, 4)):
        at, end = sorted(random.randrange(len(request) + 1) for _ in range(2))
        end = min(end, at + 20)
        request = random.choice((
            request[:at] + random.choice(PIECES) + request[at:],
            request[:at] + request[end:],
            request[:at] + bytes(random.randrange(256) for _ in range(3)) + request[end:],
            request[:end] + request[at:],
        ))  # fmt: skip
    return request


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
