"""``POST /translate/stream``: one text's translation as server-sent events, block by block."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from fairseq_specdec.hub.text import GrowingText

from .bodies import RefusedError, asked, body_schema
from .clients import Client, GoneError, client_of
from .libretranslate import Translation
from .pairs import Pairs
from .scheduler import Row
from .service import Service


def streaming(pairs: Pairs) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate/stream",
        openapi_extra=body_schema(Translation),
        response_class=StreamingResponse,
    )
    async def translate(request: Request) -> StreamingResponse:
        """Translate one text; send each piece of it when it is certain."""
        given = await asked(request, Translation, ["q"])
        service, _ = given.service(pairs)
        if not isinstance(given.q, str) or given.alternatives:
            raise RefusedError(400, "Invalid request: a stream is of one text only")
        client = client_of(request, service.limits.deadline)
        pieces = _pieces(service, service.check(given.texts), client)
        # What is refused before the first piece has a status of its own.
        first = await anext(pieces, "")
        return StreamingResponse(
            _events(first, pieces),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},  # nginx would collect them
        )

    return router


async def _events(first: str, pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    text = first
    try:
        if first:
            yield _event("message", text=first)
        async for piece in pieces:
            text += piece
            yield _event("message", text=piece)
        yield _event("end", translatedText=text)
    except RefusedError as error:
        yield _event("error", error=str(error), message=str(error))
    except GoneError:
        return


def _event(kind: str, **data: str) -> str:
    """One event; without a kind, clients take it for a ``message``."""
    name = "" if kind == "message" else f"event: {kind}\n"
    return f"{name}data: {json.dumps(data, ensure_ascii=False)}\n\n"


async def _pieces(service: Service, texts: list[str], client: Client) -> AsyncIterator[str]:
    """The pieces of one text, which waits in the queue and is decoded alone, one sentence after
    another. Raises RefusedError or GoneError: as in ``Service.translate``."""
    with service.refusing(client):
        (parts,) = await service.read(texts, client)
        if not any(parts.rows):
            if any(parts.copied):
                yield "".join(parts.copied)
            return
        loop = asyncio.get_running_loop()
        feed: asyncio.Queue = asyncio.Queue()
        ended = threading.Event()

        def send(piece: str | None) -> None:
            loop.call_soon_threadsafe(feed.put_nowait, piece)

        def decode(rows: list[Row]) -> Iterator[tuple[int, Any]]:
            for copied, row in zip(parts.copied, [*parts.rows, []]):
                growing = GrowingText(service.translator.codec)

                def put(iteration: Any, words: list[str], growing: GrowingText = growing) -> None:
                    piece = growing.next(words, iteration is None)
                    if piece:
                        send(piece)

                if copied:
                    send(copied)
                if row and not ended.is_set():
                    service.translator.decode_growing(row, put, ended.is_set)
            yield 0, None

        (job,) = service.scheduler.submit([sum(parts.rows, [])], client.until, decode)
        job.add_done_callback(lambda _: send(None))
        try:
            while True:
                piece = await client.first(feed.get())
                if piece is None:
                    job.result()
                    return
                yield piece
        finally:
            ended.set()
            job.cancel()
