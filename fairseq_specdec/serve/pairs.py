"""The language pairs that a server translates, and which of them a request asks for."""

from typing import Any, List, Sequence, Tuple

from fairseq_specdec.io.local_http import RefusedError

from .bodies import shown
from .limits import Limits
from .service import Service


class Pairs:
    """The services of a server, one for each pair. ``services``: at least one, of different pairs,
    with the same limits."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = tuple(services)

    @property
    def limits(self) -> Limits:
        return self.services[0].limits

    @property
    def stopping(self) -> bool:
        return any(each.scheduler.stopping for each in self.services)

    def close(self) -> None:
        """Answer what was accepted, then end the threads."""
        for each in self.services:
            each.close()

    def sources(self) -> List[str]:
        """The source languages, each once."""
        return _different(self.services, 0)

    def targets(self, source: Any = None) -> List[str]:
        """The target languages, or those of one source language."""
        return _different([s for s in self.services if source in (None, s.languages[0])], 1)

    def asked(self, source: Any, target: Any, names: Tuple[str, str]) -> Service:
        """The service of the languages that a request names; a region after them is taken.

        Args:
            source: None where the request leaves it open.
            target: as the request has it.
            names: of the two fields.
        """
        fitting = _of_language(self.services, 1, target, names[1])
        if source is not None:
            fitting = _of_language(fitting, 0, source, names[0])
        if len(fitting) > 1:
            there = ", ".join(_different(fitting, 0))
            raise RefusedError(400, f"{names[0]} must be one of {there}")
        return fitting[0]


def check_new(services: Sequence[Service], service: Service) -> None:
    """Refuse a service whose pair is there."""
    if service.languages in [each.languages for each in services]:
        raise ValueError(f"{'-'.join(service.languages)} is there already; leave one of them out")


def _different(services: Sequence[Service], side: int) -> List[str]:
    return list(dict.fromkeys(each.languages[side] for each in services))


def _of_language(services: Sequence[Service], side: int, value: Any, what: str) -> List[Service]:
    """Those of a language; where none has its region, those that have none."""
    code = str(value).lower().replace("_", "-")
    for wanted in (code, code.split("-")[0]) if isinstance(value, str) else ():
        fitting = [s for s in services if s.languages[side].lower().replace("_", "-") == wanted]
        if fitting:
            return fitting
    there = ", ".join(_different(services, side))
    raise RefusedError(400, f"{what} {shown(value)} is not supported; there is {there}")
