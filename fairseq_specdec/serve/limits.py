"""How much a server takes."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of requests and of the queue."""

    body: int = 128 * 1024
    batch: int = 16
    texts: int = 128
    characters: int = 5000
    requests: int = 1024
    connections: int = 1024
    wait: float = 3.0
    deadline: float = 30.0
    arrival: float = 10.0
