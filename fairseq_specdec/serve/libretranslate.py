"""LibreTranslate's interface: translating, as a whole or as events, languages, settings."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse

from .bodies import Drafted, asked, body_schema
from .pairs import Pairs


class Texts(BaseModel):
    """Texts in an unknown language."""

    q: str | list[str]

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class Translation(Texts, Drafted):
    """Texts and languages. ``source``: auto to detect it."""

    source: str
    target: str
    format: Literal["text"] = "text"
    alternatives: int = Field(0, ge=0, le=100)
    api_key: str | None = None


def add_libretranslate(app: FastAPI, pairs: Pairs, keyed: bool) -> None:
    """Add its routes. ``keyed``: requests must bring a token."""

    @app.post("/translate", openapi_extra=body_schema(Translation))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate one text, or a list of them."""
        given = asked(request, Translation)
        service, percent = pairs.asked(given.source, given.target, given.texts)
        most, nbest = given.alternatives, service.translator.nbest
        if most and most >= nbest:
            raise HTTPException(
                400,
                f"alternatives {most}: there are {nbest - 1}; start the server with "
                f"--beam {most + 1} --nbest {most + 1}",
            )
        translations = await service.translate(given.texts, request, given)
        answer: dict[str, list[Any]] = {"translatedText": [each.text for each in translations]}
        if most:
            answer["alternatives"] = [
                [other.text for other in each.alternatives[:most]] for each in translations
            ]
        if given.source == "auto":
            known = {"confidence": percent, "language": pairs.source_of(service)}
            answer["detectedLanguage"] = [known for _ in translations]
        if isinstance(given.q, str):
            return {name: value[0] for name, value in answer.items()}
        return answer

    described = body_schema(Translation)

    @app.post("/translate/stream", openapi_extra=described, response_class=StreamingResponse)
    async def stream(request: Request) -> StreamingResponse:
        """Translate one text; send each piece of it when it is certain, as server-sent events."""
        given = asked(request, Translation)
        service, _ = pairs.asked(given.source, given.target, given.texts)
        if not isinstance(given.q, str) or given.alternatives:
            raise HTTPException(400, "Invalid request: a stream is of one text only")
        pieces = service.stream(given.q, request, given)
        # What is refused before the first piece has a status of its own.
        first = await anext(pieces, "")
        return StreamingResponse(
            _events(first, pieces),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},  # nginx would collect them
        )

    @app.post("/detect", openapi_extra=body_schema(Texts))
    async def detect(request: Request) -> list[dict[str, Any]]:
        """The likeliest source language of a text, or of a list of them together."""
        given = asked(request, Texts)
        service, percent = pairs.detected(given.texts)
        return [{"confidence": percent, "language": pairs.source_of(service)}]

    @app.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """The pairs that are translated."""
        return [
            {"code": source, "name": source, "targets": pairs.targets(source)}
            for source in pairs.sources()
        ]

    @app.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """What a user interface shows first."""
        source = pairs.sources()[0]
        first = {"source": source, "target": pairs.targets(source)[0]}
        return {
            "apiKeys": keyed,
            "charLimit": pairs.limits.max_characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": keyed,
            "language": {side: {"code": code, "name": code} for side, code in first.items()},
            "suggestions": False,
            "supportedFilesFormat": [],
        }


async def _events(first: str, pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    """The pieces of a text as events, then an event ``end`` or ``error``."""
    text = first
    try:
        if first:
            yield _event(text=first)
        async for piece in pieces:
            text += piece
            yield _event(text=piece)
        yield "event: end\n" + _event(translatedText=text)
    except HTTPException as error:
        yield "event: error\n" + _event(error=error.detail, message=error.detail)


def _event(**data: str) -> str:
    """The data of one event; without a name before it, clients take it for a ``message``."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
