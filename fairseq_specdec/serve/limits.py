"""How much a server takes."""

import dataclasses

from fairseq_specdec.io.flag_values import AT_LEAST_1, SECONDS, Range, flag

_BATCH = "texts that are decoded together, where that pays; no answer depends on it"
_WAIT = "seconds that a request may be expected to wait; else it is refused with status 429"
_DEADLINE = "seconds in which an accepted request is answered; else status 504"
_ARRIVAL = "seconds in which a request's body arrives, and the next request on its connection"
_RECENT = "outputs that are kept of each context_id, in at most 40 MB, as drafts of its next texts"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Each is a flag."""

    max_body: int = flag(128 * 1024, "bytes of a request's body", AT_LEAST_1)
    max_batch: int = flag(16, _BATCH, AT_LEAST_1)
    max_texts: int = flag(128, "texts of a request", AT_LEAST_1)
    max_characters: int = flag(5000, "characters of a text", AT_LEAST_1)
    max_connections: int = flag(1024, "connections that are open at the same time", AT_LEAST_1)
    max_wait: float = flag(3.0, _WAIT, SECONDS)
    max_deadline: float = flag(30.0, _DEADLINE, SECONDS)
    max_arrival: float = flag(10.0, _ARRIVAL, SECONDS)
    recent_outputs: int = flag(0, _RECENT, Range(0, 100, whole=True))
