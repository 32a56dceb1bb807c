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

from fairseq.tasks import FairseqTask
from fastapi import FastAPI
from pydantic import BaseModel, Field
from starlette.concurrency import iterate_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, StreamingResponse

from fairseq_specdec.decoding.iteration import VERDICTS
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.flags import split_flags
from fairseq_specdec.viewer.page import page

from .bodies import asked, body_schema, shown
from .pairs import Pairs

logger = logging.getLogger(__name__)

STOCK = "fairseq itself"
WIDEST = 8  # beam that can be chosen
REPEATS = 3  # timed runs of each


class Race(BaseModel):
    """A text, its languages, and who decodes it. ``strategies``: None for all. ``stock``: fairseq
    itself, last."""

    text: str
    source: str | None = None
    target: str
    strategies: list[str] | None = None
    beam: int = Field(1, ge=1, le=WIDEST)
    stock: bool = False


def add_races(app: FastAPI, pairs: Pairs, keyed: bool) -> None:
    """Add the page and its race. ``keyed``: requests must bring a token."""
    turn = asyncio.Lock()  # two races at once would slow each other down and time nothing

    @app.get("/", response_class=HTMLResponse)
    async def start() -> str:
        """A page: translate, race strategies, see what each drafts."""
        data = {
            "pairs": [
                {
                    "source": each.languages[0],
                    "target": each.languages[1],
                    "strategies": [name for name in each.racers if name != STOCK],
                    "stock": STOCK in each.racers,
                }
                for each in pairs.services
            ],
            "verdicts": VERDICTS,
            "characters": pairs.limits.max_characters,
            "widest": WIDEST,
            "keyed": keyed,
        }
        return page("Translate, and see what is drafted", "start", data)

    @app.post("/race", openapi_extra=body_schema(Race), response_class=StreamingResponse)
    async def race(request: Request) -> StreamingResponse:
        """Decode one text by several strategies; send what each does as JSON lines."""
        given = asked(request, Race)
        service, _ = pairs.asked(given.source, given.target, [given.text])
        service.check([given.text])
        chosen = given.strategies or [name for name in service.racers if name != STOCK]
        for name in (*chosen, STOCK) if given.stock else chosen:
            if name not in service.racers:
                raise HTTPException(
                    400,
                    f"{shown(name)} is not loaded; there are {', '.join(service.racers)}; start "
                    "the server with --demo for all that the model allows",
                )
        racers = {name: service.racers[name] for name in chosen}
        events = raced(service.translator, given.text, racers, given.beam, given.stock)
        return StreamingResponse(_in_turn(turn, events), media_type="application/x-ndjson")


async def _in_turn(turn: asyncio.Lock, events: Iterator[dict[str, Any]]) -> AsyncIterator[str]:
    """The events as lines, once no other race runs; what fails becomes an ``error`` event."""
    async with turn:
        try:
            with contextlib.closing(events):  # type: ignore[type-var]
                async for event in iterate_in_threadpool(events):
                    yield json.dumps(event, allow_nan=False) + "\n"
        except Exception as error:
            message = str(error)
            if not isinstance(error, ValueError):  # such as a text that is too long
                message = f"decoding failed ({type(error).__name__})"
                logger.error("a race: %s", message)  # without the text
            yield json.dumps({"event": "error", "message": message}) + "\n"


def stock_translator(
    translator: SpeculativeTranslator, beam: int
) -> Callable[[str], tuple[str, int]]:
    """What translates a text as one with fairseq's own generator: the text of the best hypothesis,
    and its tokens with </s>. ``translator``: made with ``keep_weights``."""
    decoding, (_, args) = translator.opened().base, split_flags("greedy", None, {"beam": beam})
    models, codec = decoding.loaded.models, decoding.codec
    generator = FairseqTask.build_generator(decoding.loaded.task, models, args)

    def translate(text: str) -> tuple[str, int]:
        sample, first = decoding.given(translator.encode([text]))
        ids = generator.generate(models, sample, **first)[0][0]["tokens"].tolist()
        return codec.join(codec.words(ids)), len(ids)

    return translate


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
        found[name] = {"text": "", "tokens": 0}
        stream: Any = translator.translate_stream(text, True, **call)
        with contextlib.closing(stream):
            for piece in stream:
                found[name]["text"] += piece.text
                if piece.iteration is not None:
                    found[name]["tokens"] += len(piece.iteration.emitted)
                    iteration = dataclasses.asdict(piece.iteration)
                    yield {"event": "block", "name": name, "iteration": iteration}
        runs[name] = functools.partial(translator.translate, text, **call)
    turns = [(turn, name) for turn in range(1, REPEATS + 1) for name in runs]
    if stock:
        runs[STOCK] = functools.partial(stock_translator(translator, beam), text)
        stock_text, tokens = runs[STOCK]()  # and warm
        found[STOCK] = {"text": stock_text, "tokens": tokens}
        turns += [(turn, STOCK) for turn in range(1, REPEATS + 1)]
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn, name in turns:
        began = time.perf_counter()
        runs[name]()
        times[name].append(round(1000 * (time.perf_counter() - began), 3))
        yield {"event": "timed", "name": name, "turn": turn, "ms": times[name][-1]}
    for name, each in times.items():
        found[name]["ms"] = statistics.median(each)
    yield {"event": "end", "runs": found}
