"""A race: strategies decode one sentence, one after the other, so that each is timed alone."""

import contextlib
import dataclasses
import statistics
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from fairseq_specdec.hub import SpeculativeTranslator

from .racers import Racers
from .stock import StockTranslator

CHARACTERS = 2000
WIDEST = 8  # beam that can be chosen


class UnfitError(ValueError):
    """A request that cannot be raced; has the remedy, in the words of the page."""


def check_text(text: Any, translators: Mapping[str, SpeculativeTranslator]) -> str:
    """The sentence, if it can be decoded."""
    if not isinstance(text, str):
        raise UnfitError("The text must be a string.")
    if len(text) > CHARACTERS:
        raise UnfitError(
            f"The text has {len(text)} characters, and at most {CHARACTERS} are taken."
        )
    first = next(iter(translators.values()))
    tokens = len(first.codec.encode(text))
    if not tokens:
        raise UnfitError("There is nothing to translate: type a sentence.")
    if tokens > first.longest_source:
        raise UnfitError(
            f"The text has {tokens} tokens, and the verifier reads {first.longest_source}: split "
            "it into sentences."
        )
    return text


def check_beam(beam: Any) -> int:
    """The hypotheses to keep; None is 1."""
    if beam is None:
        return 1
    if not isinstance(beam, int) or isinstance(beam, bool) or not 1 <= beam <= WIDEST:
        raise UnfitError(f"The beam must be a whole number from 1 to {WIDEST}.")
    return beam


def check_stock(stock: Any) -> bool:
    """Whether fairseq itself takes part; None is no."""
    if stock is not None and not isinstance(stock, bool):
        raise UnfitError("stock must be true or false.")
    return bool(stock)


def check_names(names: Any, racers: Racers, beam: int = 1) -> List[str]:
    """The strategies to race, in the order in which they were loaded; None is all of them."""
    translators = racers.translators
    if names is None:
        return list(translators) if beam == 1 else racers.wide
    if not isinstance(names, list) or not names:
        raise UnfitError("Choose at least one strategy.")
    for name in names:
        if not isinstance(name, str) or name not in translators:
            raise UnfitError(
                f"Strategy {str(name)[:40]!r} is not loaded; there are {', '.join(translators)}. "
                "Start specdec-demo with it in --strategies."
            )
        if beam > 1 and name not in racers.wide:
            raise UnfitError(
                f"Strategy {name!r} is not lossless and keeps one hypothesis: choose beam 1, or "
                "leave it out."
            )
    return [name for name in translators if name in names]


def _since(began: float) -> float:
    return round(1000 * (time.perf_counter() - began), 3)


def watched(name: str, translator: SpeculativeTranslator, text: str) -> Iterator[Dict[str, Any]]:
    """One strategy's decoding: ``block`` for each iteration, then ``finish``.

    ``at_ms`` counts from the beginning, tokenizing and encoding included. Passing the blocks on
    takes a little time, which ``timed`` runs do not include.
    """
    yield {"event": "go", "name": name}
    emitted = drafted = accepted = iterations = 0
    pieces: List[str] = []
    began = time.perf_counter()
    with contextlib.closing(translator.translate_stream(text, return_trace=True)) as stream:  # type: ignore[type-var]
        for piece in stream:
            at = _since(began)
            pieces.append(piece.text)
            part = piece.iteration
            if part is None:
                continue
            iterations += 1
            emitted += len(part.emitted)
            drafted += len(part.draft)
            accepted += part.accepted
            if part.beam is not None:
                drafted += part.beam.drafted
                accepted += part.beam.used
            iteration = dict(dataclasses.asdict(part), accepted=part.accepted)
            yield {
                "event": "block",
                "name": name,
                "at_ms": at,
                "text": piece.text,
                "iteration": iteration,
            }
    yield {
        "event": "finish",
        "name": name,
        "ms": _since(began),
        "text": "".join(pieces),
        "iterations": iterations,
        "tokens": emitted,
        # Of a beam: prefixes, and those of them that hypotheses came to.
        "drafted": drafted,
        "accepted": accepted,
        # Tok. of the papers: the verifier's own token counts.
        "mean_accepted_tokens": round(emitted / iterations, 4) if iterations else 0.0,
    }


def race(
    translators: Mapping[str, SpeculativeTranslator],
    text: str,
    names: Sequence[str],
    repeats: int,
    stock: Optional[StockTranslator] = None,
) -> Iterator[Dict[str, Any]]:
    """Events of a race, ready for JSON.

    Every strategy decodes once while it is watched (``go``, ``block`` ..., ``finish``). Then they
    take turns, ``repeats`` times, with nothing streamed and no other of them running: ``timed``
    has each of these times, ``end`` their medians. fairseq itself, which takes longest, comes
    last: after a warm-up as many runs (one at least), ``timed``, and their median, ``stock``.
    """
    yield {"event": "start", "names": list(names), "repeats": repeats}
    for name in names:
        yield from watched(name, translators[name], text)
    times: Dict[str, List[float]] = {name: [] for name in names}
    for turn in range(1, repeats + 1):
        for name in names:
            began = time.perf_counter()
            translators[name].translate(text)
            times[name].append(_since(began))
            yield {"event": "timed", "name": name, "turn": turn, "ms": times[name][-1]}
    medians = {name: round(statistics.median(ms), 3) for name, ms in times.items() if ms}
    yield {"event": "end", "ms": medians}
    if stock is not None:
        translation, own = stock(text), []
        for turn in range(1, max(1, repeats) + 1):
            began = time.perf_counter()
            stock(text)
            own.append(_since(began))
            yield {"event": "timed", "name": "fairseq itself", "turn": turn, "ms": own[-1]}
        yield {
            "event": "stock",
            "ms": round(statistics.median(own), 3),
            "text": translation.text,
            "tokens": translation.tokens,
        }
