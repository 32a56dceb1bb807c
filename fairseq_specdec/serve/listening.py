"""The address that a server listens on."""

import ipaddress
import socket
from typing import NamedTuple, Sequence

from fairseq_specdec.io.local_http import ADDRESS

PORT = 8700


class Listening(NamedTuple):
    """A socket that is bound. ``loopback``: only this machine reaches it."""

    socket: socket.socket
    host: str
    port: int
    loopback: bool

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"


def check_free(words: Sequence[str]) -> None:
    """Refuse a command line whose port is taken. It takes no time, since it leaves all other
    mistakes to the command's parser."""
    given = {"--host": ADDRESS, "--port": str(PORT)}
    for word, following in zip(words, [*words[1:], ""]):
        flag, equals, value = word.partition("=")
        if flag.startswith("--bench"):
            return  # it listens on a port of its own
        if flag in given:
            given[flag] = value if equals else following
    if given["--port"].isdecimal() and int(given["--port"]) < 1 << 16:
        listen(given["--host"], int(given["--port"])).socket.close()


def listen(host: str, port: int) -> Listening:
    """Bind a socket. ``port``: 0 for any free one."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--host {host}: no address; give one of this machine's") from error
    bound = socket.socket(family, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ValueError(
            f"--host {host} --port {port}: {error.strerror or error}; give another, or --port 0 "
            "for any free one"
        ) from error
    at = bound.getsockname()
    return Listening(bound, at[0], at[1], ipaddress.ip_address(at[0]).is_loopback)
