"""The language pairs that a server translates, and which of them a request names."""

import functools
import gc
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from py3langid.langid import MODEL_FILE, LanguageIdentifier
from starlette.exceptions import HTTPException

from fairseq_specdec.engine.memory import give_back_freed_memory
from fairseq_specdec.hub.language_codes import matching, short

from .bodies import shown
from .service import Service


class Pairs:
    """The services of a server, one for each pair. ``services``: at least one, of different pairs,
    with the same limits."""

    def __init__(self, services: Sequence[Service]) -> None:
        self.services, self._old = list(services), list[Service]()
        self._changing = threading.Lock()
        self.limits = services[0].limits
        if len(services) > 1:
            _identifier()  # it is read before the first request

    def close(self) -> None:
        """Answer what was accepted, then end the threads."""
        with self._changing:
            for each in (*self._old, *self.services):
                each.close()

    def reload(self) -> None:
        """Make each service again, for new requests; one that fails stays. Returns when requests of
        before have ended with the old ones, whose memory is then free."""
        for i, old in enumerate(self.services):
            with self._changing:
                if old.scheduler.stopping:
                    return
                try:
                    old.translator.write_learnt()
                    new = old.again()
                except Exception as error:
                    problem = "%s keeps its model, since the files do not load: %.300r"
                    logging.getLogger(__name__).error(problem, "-".join(old.languages), error)
                    continue
                now, before = new.scheduler, old.scheduler
                now.pace, now.observe = before.pace, before.observe
                self._old, self.services[i] = [*self._old, old], new
        time.sleep(self.limits.max_deadline + 1)
        with self._changing:
            while self._old:
                self._old.pop().close()
        gc.collect()
        give_back_freed_memory()

    def sources(self) -> list[str]:
        """The source languages, each once, by the models' codes and by the short ones of each."""
        return _named(_different(self.services, 0))

    def targets(self, source: str | None = None) -> list[str]:
        """The target languages, or those of one source language, each once."""
        fitting: Sequence[Service] = self.services
        if source is not None:
            codes = matching(source, _different(self.services, 0))
            fitting = [each for each in fitting if each.languages[0] in codes]
        return _named(_different(fitting, 1))

    def source_of(self, service: Service) -> str:
        """A service's source language, by its short code where it has one."""
        code = service.languages[0]
        return short(code, _different(self.services, 0)) or code

    def detected(self, texts: list[str], services: Sequence[Service] = ()) -> tuple[Service, int]:
        """A service of the source language that texts are in, with how likely that is in percent.
        ``services``: to choose from (default: all)."""
        services = services or self.services
        codes = _different(services, 0)
        code, percent = codes[0], 100
        if len(codes) > 1:
            labels = _labels(tuple(codes))
            if not labels:
                raise HTTPException(400, f"the source language must be one of {', '.join(codes)}")
            services[0].check(texts)
            identifier = _identifier()
            identifier.set_languages(list(labels))
            label, chance = identifier.classify("\n".join(texts))
            code, percent = labels[label], round(100 * float(chance))
        return next(each for each in services if each.languages[0] == code), percent

    def asked(self, source: str | None, target: str, texts: list[str]) -> tuple[Service, int]:
        """The service of the languages that a request names, and how likely the source language
        is in percent. ``source``: None or ``auto`` to detect it."""
        fitting = _of_language(self.services, 1, target)
        if source is not None and source != "auto":
            fitting = _of_language(fitting, 0, source)
        return self.detected(texts, fitting)


def _different(services: Sequence[Service], side: int) -> list[str]:
    return list(dict.fromkeys(each.languages[side] for each in services))


def _named(codes: Sequence[str]) -> list[str]:
    return [*codes, *filter(None, (short(code, codes) for code in codes))]


def _of_language(services: Sequence[Service], side: int, asked: str) -> list[Service]:
    """Those whose source (``side`` 0) or target (1) is a language."""
    codes = _different(services, side)
    fitting = matching(asked, codes)
    if len(fitting) == 1:
        return [each for each in services if each.languages[side] == fitting[0]]
    problem = f"{('source', 'target')[side]} {shown(asked)}"
    if fitting:
        raise HTTPException(400, f"{problem} is one of {', '.join(fitting)}; name it")
    names = ((code, short(code, codes)) for code in codes)
    there = ", ".join(f"{code} ({other})" if other else code for code, other in names)
    raise HTTPException(400, f"{problem} is not supported; there is {there}")


@functools.lru_cache(maxsize=1)
def _identifier() -> Any:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@functools.lru_cache(maxsize=256)
def _labels(codes: tuple[str, ...]) -> dict[str, str]:
    """The library's languages that mean one of some codes, each with that code."""
    _identifier().set_languages()
    meant = {label: matching(label, codes) for label in _identifier().nb_classes}
    return {label: found[0] for label, found in meant.items() if found}
