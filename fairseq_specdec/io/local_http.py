"""What the servers share: headers of their answers, and which sites they answer."""

from collections.abc import Iterable

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
ADDRESS = "127.0.0.1"


class RefusedError(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        message: what is wrong and what to do.
        retry_after: seconds after which to ask again, or None.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


def hosts_of(port: int) -> set[str]:
    """The Host headers with which this machine's own clients name a loopback server."""
    names = {f"{name}:{port}" for name in (ADDRESS, "localhost")}
    return names | {ADDRESS, "localhost"} if port == 80 else names


def check_host(given: Iterable[str], port: int) -> None:
    """Refuse requests to another site's name that points here (DNS rebinding)."""
    named = {host.lower() for host in given}
    if not named or not named <= hosts_of(port):
        raise RefusedError(403, f"this server answers at http://{ADDRESS}:{port}/ only")


def check_origin(origins: Iterable[str], sites: Iterable[str], port: int) -> None:
    """Refuse what a page of another site sends."""
    ours = {f"http://{host}" for host in hosts_of(port)}
    if not {origin.lower() for origin in origins} <= ours or not set(sites) <= {
        "same-origin",
        "none",
    }:
        raise RefusedError(403, "requests of other sites are not answered")
