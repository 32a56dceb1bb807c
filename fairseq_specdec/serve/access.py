"""Who is answered: whoever knows the token; without one, the programs of this machine."""

import hmac
import logging
import os
import stat
from typing import Any, Dict, Mapping, Optional

from starlette.datastructures import Headers
from starlette.requests import Request

from fairseq_specdec.io.local_http import RefusedError, check_host, check_origin

from .bodies import asked

logger = logging.getLogger(__name__)

VARIABLE = "SPECDEC_SERVE_TOKEN"
_SHORTEST = 16
# For orchestrators, which have no token.
OPEN = ("/health", "/ready")
# LibreTranslate's clients send the token as a field.
_IN_FIELDS = ("/translate", "/translate/stream", "/detect", "/languages", "/frontend/settings")


def token_of(file: Optional[str], environment: Mapping[str, str] = os.environ) -> Optional[str]:
    """The token in a file, or that of the environment; None for none."""
    name = f"--token-file {file}" if file is not None else VARIABLE
    if file is not None:
        with open(file, encoding="utf-8", errors="replace") as stream:
            if os.fstat(stream.fileno()).st_mode & stat.S_IROTH:
                logger.warning("%s: others can read it; use chmod 600 %s", name, file)
            token = stream.read(4096).strip()
    elif VARIABLE in environment:
        token = environment[VARIABLE].strip()
    else:
        return None
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{name}: a token is {_SHORTEST} or more letters, digits and signs; "
            "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        )
    return token


class Access:
    """Decides who is answered. ``token``: that requests must bring; None for none. ``port``: of a
    loopback server without a token, which answers no other site; None for others."""

    def __init__(self, token: Optional[str], port: Optional[int]) -> None:
        self._token = token
        self._port = port if token is None else None

    def check_site(self, headers: Headers) -> None:
        """Refuse requests that a page of another site made."""
        if self._port is not None:
            check_host(headers.getlist("host"), self._port)
            check_origin(headers.getlist("origin"), headers.getlist("sec-fetch-site"), self._port)

    async def check_token(self, scope: Dict[str, Any], receive: Any) -> None:
        """Refuse requests without the token.

        Args:
            scope: of the request.
            receive: gives its body, which was read.

        Raises:
            RefusedError: 403.
        """
        if self._token is None or scope["path"] in OPEN:
            return
        # Authorization: Bearer TOKEN, and DeepL-Auth-Key TOKEN
        given: Any = Headers(scope=scope).get("authorization", "").rpartition(" ")[2]
        if not given and scope["path"] in _IN_FIELDS:
            given = await _field(Request(scope, receive))
        given = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        # In a time that does not depend on how much of it is right.
        if not hmac.compare_digest(given, self._token.encode("utf-8")):
            raise RefusedError(403, "the token is missing or wrong")


async def _field(request: Request) -> Any:
    """``api_key`` of a request's body or query string."""
    try:
        return (await asked(request, [])).get("api_key")
    except RefusedError:  # of a body that the route refuses again
        return request.query_params.get("api_key")
