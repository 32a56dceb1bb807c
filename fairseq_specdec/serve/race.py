"""The server's page, and races: strategies decode a text one after another, each timed alone."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.concurrency import iterate_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, StreamingResponse

from fairseq_specdec.decoding.iteration import VERDICTS
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.stock import stock_translator
from fairseq_specdec.viewer import page

from .bodies import RefusedError, asked, body_schema, shown
from .pairs import Pairs

logger = logging.getLogger(__name__)

STOCK = "fairseq itself"
WIDEST = 8  # beam that can be chosen
REPEATS = 3  # timed runs of each
# Seconds that a race waits for another one.
PATIENCE = 60.0


class Race(BaseModel):
    """A text, its languages, and who decodes it. ``strategies``: None for all. ``stock``: fairseq
    itself, last."""

    text: str
    source: str | None = None
    target: str
    strategies: list[str] | None = None
    beam: int = Field(1, ge=1, le=WIDEST)
    stock: bool = False


def races(pairs: Pairs, keyed: bool) -> APIRouter:
    """The page and its race. ``keyed``: requests must bring a token."""
    router = APIRouter(tags=["Page"])
    turn = asyncio.Lock()  # two races at once would slow each other down and time nothing

    @router.get("/", response_class=HTMLResponse)
    async def start() -> HTMLResponse:
        """A page: translate, race strategies, see what each drafts."""
        return _page(pairs, keyed)

    @router.post("/race", openapi_extra=body_schema(Race), response_class=StreamingResponse)
    async def race(request: Request) -> StreamingResponse:
        """Decode one text by several strategies; send what each does as JSON lines."""
        given = await asked(request, Race)
        names = ("source", "target")
        service, _ = pairs.asked(given.source, given.target, names, [given.text])
        (text,) = service.check([given.text])
        chosen = list(service.racers) if given.strategies is None else given.strategies
        for name in chosen:
            if name not in service.racers:
                there = ", ".join(service.racers)
                raise RefusedError(
                    400,
                    f"strategies {shown(name)}: there are {there}; start the server with --demo "
                    "for all that the model allows",
                )
        if given.stock and not service.stock:
            raise RefusedError(400, "stock: fairseq itself is not loaded; start with --demo")
        racers = {name: service.racers[name] for name in chosen}
        events = raced(service.translator, text, racers, given.beam, given.stock)
        return StreamingResponse(_in_turn(turn, events), media_type="application/x-ndjson")

    return router


def _page(pairs: Pairs, keyed: bool) -> HTMLResponse:
    data = {
        "pairs": [
            {
                "source": each.languages[0],
                "target": each.languages[1],
                "strategies": list(each.racers),
                "stock": each.stock,
                "examples": each.examples,
            }
            for each in pairs.services
        ],
        "verdicts": VERDICTS,
        "characters": pairs.limits.characters,
        "widest": WIDEST,
        "keyed": keyed,
    }
    made = page("Translate, and see what is drafted", "start", data)
    return HTMLResponse(made.text, headers={"Content-Security-Policy": made.policy})


async def _in_turn(turn: asyncio.Lock, events: Iterator[dict[str, Any]]) -> AsyncIterator[str]:
    """The events as lines, once no other race runs; what fails becomes an ``error`` event."""
    if turn.locked():
        yield _line(event="waiting")
    try:
        await asyncio.wait_for(turn.acquire(), PATIENCE)
    except asyncio.TimeoutError:
        yield _line(event="error", message="Another race is still running: try again later.")
        return
    try:
        with contextlib.closing(events):  # type: ignore[type-var]
            async for event in iterate_in_threadpool(events):
                yield _line(**event)
    except ValueError as error:  # a text that is too long, a beam that the model does not have
        yield _line(event="error", message=str(error))
    except Exception as error:
        logger.error("a race failed: %s", type(error).__name__)
        message = f"Decoding failed ({type(error).__name__}); the server's log says more."
        yield _line(event="error", message=message)
    finally:
        turn.release()


def _line(**event: Any) -> str:
    return json.dumps(event, allow_nan=False) + "\n"


def raced(
    translator: SpeculativeTranslator,
    text: str,
    racers: Mapping[str, Mapping[str, Any]],
    beam: int,
    stock: bool,
) -> Iterator[dict[str, Any]]:
    """Events of a race, ready for JSON. ``racers``: strategies with flags of their own.

    Every strategy decodes once while it is watched: ``go``, ``block`` for each iteration. Then they
    take turns, with nothing streamed: ``timed`` for each run. fairseq itself comes last: it takes
    longest. ``end`` has each one's text, its tokens (of ours emitted ones) and its median time.
    """
    found: dict[str, dict[str, Any]] = {}
    runs: dict[str, Callable[[], Any]] = {}
    for name, flags in racers.items():
        call: Any = {"strategy": name, "split": False, "beam": beam, "nbest": 1, **flags}
        yield {"event": "go", "name": name}
        said, tokens = "", 0
        stream: Any = translator.translate_stream(text, True, **call)
        with contextlib.closing(stream):
            for piece in stream:
                said += piece.text
                if piece.iteration is not None:
                    tokens += len(piece.iteration.emitted)
                    iteration = dataclasses.asdict(piece.iteration)
                    yield {"event": "block", "name": name, "iteration": iteration}
        found[name] = {"text": said, "tokens": tokens}
        runs[name] = functools.partial(translator.translate, text, **call)
    yield from _timed(runs, found)
    if stock:
        translate = stock_translator(translator, beam)
        said, tokens = translate(text)  # and warm
        found[STOCK] = {"text": said, "tokens": tokens}
        yield from _timed({STOCK: lambda: translate(text)}, found)
    yield {"event": "end", "runs": found}


def _timed(
    runs: dict[str, Callable[[], Any]], found: dict[str, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Time all in turns, and put the medians into what was found."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(1, REPEATS + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            times[name].append(1000 * (time.perf_counter() - began))
            yield {"event": "timed", "name": name, "turn": turn, "ms": round(times[name][-1], 3)}
    for name, each in times.items():
        found[name]["ms"] = round(statistics.median(each), 3)
