"""The language pairs that a server translates, and which of them a request asks for."""

import functools
from collections.abc import Sequence
from typing import Any

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from fairseq_specdec.hub.language_codes import matching, short

from .bodies import RefusedError, shown
from .flags import Limits
from .service import Service


class Pairs:
    """The services of a server, one for each pair. ``services``: at least one, of different pairs,
    with the same limits."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.services = tuple(services)
        if len(services) > 1:  # it reads the library's model before the first request
            likeliest([], _different(services, 0))

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

    def sources(self) -> list[str]:
        """The source languages, each once, by the models' codes and by the short ones of each."""
        return _named(_different(self.services, 0))

    def targets(self, source: Any = None) -> list[str]:
        """The target languages, or those of one source language, each once."""
        fitting = self.services
        if source is not None:
            codes = matching(source, _different(self.services, 0))
            fitting = tuple(each for each in fitting if each.languages[0] in codes)
        return _named(_different(fitting, 1))

    def source_of(self, service: Service) -> str:
        """A service's source language, by its short code where it has one."""
        code = service.languages[0]
        return short(code, _different(self.services, 0)) or code

    def detected(
        self, texts: Any, name: str, services: Sequence[Service] = ()
    ) -> tuple[Service, int]:
        """A service of the source language that texts are in, with how likely that is in percent.
        ``name``: of the field that names it. ``services``: to choose from (default: all)."""
        services = services or self.services
        codes = _different(services, 0)
        likely = likeliest(self.services[0].check(texts) if len(codes) > 1 else [], codes)
        if likely is None:
            raise RefusedError(400, f"{name} must be one of {', '.join(codes)}")
        code, percent = likely
        return next(each for each in services if each.languages[0] == code), percent

    def asked(
        self, source: Any, target: Any, names: tuple[str, str], texts: Any
    ) -> tuple[Service, int]:
        """The service of the languages that a request names, and how likely the source language
        is in percent. ``source``: None to detect it. ``names``: of the two fields."""
        fitting = _of_language(self.services, 1, target, names[1])
        if source is not None:
            fitting = _of_language(fitting, 0, source, names[0])
        return self.detected(texts, names[0], fitting)


def _different(services: Sequence[Service], side: int) -> list[str]:
    return list(dict.fromkeys(each.languages[side] for each in services))


def _named(codes: Sequence[str]) -> list[str]:
    return [*codes, *filter(None, (short(code, codes) for code in codes))]


def _of_language(services: Sequence[Service], side: int, value: Any, what: str) -> list[Service]:
    """Those of a language."""
    codes = _different(services, side)
    fitting = matching(value, codes) if isinstance(value, str) else []
    if len(fitting) == 1:
        return [each for each in services if each.languages[side] == fitting[0]]
    if fitting:
        raise RefusedError(400, f"{what} {shown(value)} is one of {', '.join(fitting)}; name it")
    names = ((code, short(code, codes)) for code in codes)
    there = ", ".join(f"{code} ({other})" if other else code for code, other in names)
    raise RefusedError(400, f"{what} {shown(value)} is not supported; there is {there}")


@functools.lru_cache(maxsize=1)
def _identifier() -> Any:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@functools.lru_cache(maxsize=256)
def _labels(codes: tuple[str, ...]) -> dict[str, str]:
    """The library's languages that mean one of some codes, each with that code."""
    _identifier().set_languages()
    meant = {label: matching(label, codes) for label in _identifier().nb_classes}
    return {label: found[0] for label, found in meant.items() if found}


def likeliest(texts: Sequence[str], codes: Sequence[str]) -> tuple[str, int] | None:
    """The language of some texts together, with how likely it is in percent. ``codes``: to choose
    from; None where the library has none of them. All calls are of one thread."""
    if len(codes) == 1:
        return codes[0], 100
    labels = _labels(tuple(codes))
    if not labels:
        return None
    _identifier().set_languages(list(labels))
    label, chance = _identifier().classify("\n".join(texts))
    return labels[label], round(100 * float(chance))
