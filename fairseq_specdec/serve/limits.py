"""How much a server takes."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of requests and of the queue.

    Attributes:
        body: bytes of a request's body.
        batch: sentences that are decoded together.
        texts: of a request.
        characters: of a text.
        requests: that are open at the same time.
        connections: that are open at the same time.
        wait: seconds that a request is expected to wait in the queue.
        deadline: seconds in which an accepted request is answered.
        arrival: seconds in which a request's headers, and then its body, arrive.
    """

    body: int = 128 * 1024
    batch: int = 16
    texts: int = 128
    characters: int = 5000
    requests: int = 1024
    connections: int = 1024
    wait: float = 3.0
    deadline: float = 30.0
    arrival: float = 10.0
