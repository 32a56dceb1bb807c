"""LibreTranslate's interface: translating, detecting languages, listing them, settings."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request

from .bodies import RefusedError, asked, body_schema
from .clients import client_of
from .pairs import Pairs
from .service import Service


class Texts(BaseModel):
    """Texts in an unknown language."""

    q: str | list[str]

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class Translation(Texts):
    """Texts and languages. ``source``: auto to detect it."""

    source: str
    target: str
    format: Literal["text"] = "text"
    alternatives: int = Field(0, ge=0, le=100)
    api_key: str | None = None

    def service(self, pairs: Pairs) -> tuple[Service, int]:
        """Who translates them, and how likely the source language is in percent."""
        source = None if self.source == "auto" else self.source
        return pairs.asked(source, self.target, ("source", "target"), self.texts)


def libretranslate(pairs: Pairs, keyed: bool) -> APIRouter:
    """Its routes. ``keyed``: requests must bring a token."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", openapi_extra=body_schema(Translation))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate one text, or a list of them."""
        given = await asked(request, Translation, ["q"])
        service, percent = given.service(pairs)
        most = given.alternatives
        if most and most >= service.translator.nbest:
            raise RefusedError(
                400,
                f"alternatives {most}: there are {service.translator.nbest - 1}; start the server "
                f"with --beam {most + 1} --nbest {most + 1}",
            )
        client = client_of(request, service.limits.deadline)
        translations = await service.translate(service.check(given.texts), client)
        answer: dict[str, Any] = {"translatedText": [each.text for each in translations]}
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

    @router.post("/detect", openapi_extra=body_schema(Texts))
    async def detect(request: Request) -> list[dict[str, Any]]:
        """The likeliest source language of a text, or of a list of them together."""
        texts = (await asked(request, Texts, ["q"])).texts
        service, percent = pairs.detected(texts, "source")
        return [{"confidence": percent, "language": pairs.source_of(service)}]

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """The pairs that are translated."""
        return [
            {"code": source, "name": source, "targets": pairs.targets(source)}
            for source in pairs.sources()
        ]

    @router.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """What a user interface shows first."""
        source = pairs.sources()[0]
        first = {"source": source, "target": pairs.targets(source)[0]}
        return {
            "apiKeys": keyed,
            "charLimit": pairs.limits.characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": keyed,
            "language": {side: {"code": code, "name": code} for side, code in first.items()},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return router
