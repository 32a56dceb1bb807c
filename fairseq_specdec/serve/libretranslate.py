"""LibreTranslate's interface: translating, detecting languages, listing them, settings."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from fastapi import APIRouter
from starlette.requests import Request

from fairseq_specdec.io.local_http import RefusedError

from .bodies import asked, body_schema, shown
from .clients import client_of
from .pairs import Pairs
from .service import Service

MOST_ALTERNATIVES = 100
_TEXT = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_SCHEMA = {
    "type": "object",
    "required": ["q", "source", "target"],
    "properties": {
        "q": _TEXT,
        "source": {"type": "string"},
        "target": {"type": "string"},
        "format": {"type": "string", "enum": ["text"]},
        "alternatives": {"type": "integer", "minimum": 0},
        "api_key": {"type": "string"},
    },
}
_DETECTED = {"type": "object", "required": ["q"], "properties": {"q": _TEXT}}


def libretranslate(pairs: Pairs, keyed: bool) -> APIRouter:
    """Its routes. ``keyed``: requests must bring a token."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", openapi_extra=body_schema(_SCHEMA))
    async def translate(request: Request) -> Dict[str, Any]:
        """Translate one text, or a list of them."""
        fields = await asked(request, ["q"])
        service, texts, single, alternatives, percent = checked(fields, pairs)
        if alternatives and alternatives >= service.translator.nbest:
            raise RefusedError(
                400,
                f"alternatives {alternatives}: there are {service.translator.nbest - 1}; start the "
                f"server with --beam {alternatives + 1} --nbest {alternatives + 1}",
            )
        client = client_of(request, service.limits.deadline)
        translations = await service.translate(service.check(texts), client)
        answer: Dict[str, Any] = {"translatedText": [each.text for each in translations]}
        if alternatives:
            answer["alternatives"] = [
                [other.text for other in each.alternatives[:alternatives]] for each in translations
            ]
        if fields["source"] == "auto":
            known = {"confidence": percent, "language": pairs.source_of(service)}
            answer["detectedLanguage"] = [known for _ in translations]
        return {name: value[0] for name, value in answer.items()} if single else answer

    @router.post("/detect", openapi_extra=body_schema(_DETECTED))
    async def detect(request: Request) -> List[Dict[str, Any]]:
        """The likeliest source language of a text, or of a list of them together."""
        fields = await asked(request, ["q"])
        _need(fields, "q")
        service, percent = pairs.detected(_texts(fields), "source")
        return [{"confidence": percent, "language": pairs.source_of(service)}]

    @router.get("/languages")
    async def languages() -> List[Dict[str, Any]]:
        """The pairs that are translated."""
        return [
            {"code": source, "name": source, "targets": pairs.targets(source)}
            for source in pairs.sources()
        ]

    @router.get("/frontend/settings")
    async def settings() -> Dict[str, Any]:
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


def _need(fields: Dict[str, Any], *names: str) -> None:
    for name in names:
        if not fields.get(name):
            raise RefusedError(400, f"Invalid request: missing {name} parameter")


def _texts(fields: Dict[str, Any]) -> List[Any]:
    return fields["q"] if isinstance(fields["q"], list) else [fields["q"]]


def checked(fields: Dict[str, Any], pairs: Pairs) -> Tuple[Service, List[str], bool, int, int]:
    """Who translates, the texts, whether they are one without a list, how many alternatives, and
    how likely the source language is in percent."""
    _need(fields, "q", "source", "target")
    source = None if fields["source"] == "auto" else fields["source"]
    texts = _texts(fields)
    service, percent = pairs.asked(source, fields["target"], ("source", "target"), texts)
    kind = fields.get("format") or "text"
    if kind != "text":
        raise RefusedError(400, f"format {shown(kind)} is not supported; there is text")
    try:
        alternatives = int(fields.get("alternatives") or 0)
    except (TypeError, ValueError, OverflowError):
        alternatives = -1
    if not 0 <= alternatives <= MOST_ALTERNATIVES:
        raise RefusedError(400, f"alternatives must be a number from 0 to {MOST_ALTERNATIVES}")
    return service, texts, not isinstance(fields["q"], list), alternatives, percent
