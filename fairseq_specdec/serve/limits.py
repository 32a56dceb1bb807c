"""How much a server takes."""

import dataclasses
from typing import Any


def _limit(default: float, text: str) -> Any:
    return dataclasses.field(default=default, metadata={"text": text})


@dataclasses.dataclass(frozen=True)
class Limits:
    """Each is a flag, ``--max-...``."""

    body: int = _limit(128 * 1024, "bytes of a request's body")
    batch: int = _limit(
        16, "texts that are decoded together, where that pays; no answer depends on it"
    )
    texts: int = _limit(128, "texts of a request")
    characters: int = _limit(5000, "characters of a text")
    connections: int = _limit(1024, "connections that are open at the same time")
    wait: float = _limit(
        3.0, "seconds that a request may be expected to wait; else it is refused with status 429"
    )
    deadline: float = _limit(
        30.0, "seconds in which an accepted request is answered; else status 504"
    )
    arrival: float = _limit(
        10.0, "seconds in which a request's body arrives, and the next request on its connection"
    )
