"""LibreTranslate's interface: ``POST /translate`` and ``GET /languages``."""

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


def libretranslate(pairs: Pairs) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", openapi_extra=body_schema(_SCHEMA))
    async def translate(request: Request) -> Dict[str, Any]:
        """Translate one text, or a list of them."""
        fields = await asked(request, ["q"])
        service, texts, single, alternatives = checked(fields, pairs)
        client = client_of(request, service.limits.deadline)
        translations = await service.translate(service.check(texts), client)
        answer: Dict[str, Any] = {"translatedText": [each.text for each in translations]}
        if alternatives:
            answer["alternatives"] = [
                [other.text for other in each.alternatives[:alternatives]] for each in translations
            ]
        if fields["source"] == "auto":
            known = {"confidence": 100, "language": pairs.source_of(service)}
            answer["detectedLanguage"] = [known for _ in translations]
        return {name: value[0] for name, value in answer.items()} if single else answer

    @router.get("/languages")
    async def languages() -> List[Dict[str, Any]]:
        """The pairs that are translated."""
        return [
            {"code": source, "name": source, "targets": pairs.targets(source)}
            for source in pairs.sources()
        ]

    return router


def checked(fields: Dict[str, Any], pairs: Pairs) -> Tuple[Service, List[str], bool, int]:
    """Who translates, the texts, whether they are one without a list, and how many alternatives."""
    for name in ("q", "source", "target"):
        if not fields.get(name):
            raise RefusedError(400, f"Invalid request: missing {name} parameter")
    source = None if fields["source"] == "auto" else fields["source"]
    service = pairs.asked(source, fields["target"], ("source", "target"))
    kind = fields.get("format") or "text"
    if kind != "text":
        raise RefusedError(400, f"format {shown(kind)} is not supported; there is text")
    try:
        alternatives = int(fields.get("alternatives") or 0)
    except (TypeError, ValueError, OverflowError):
        alternatives = -1
    if not 0 <= alternatives <= MOST_ALTERNATIVES:
        raise RefusedError(400, f"alternatives must be a number from 0 to {MOST_ALTERNATIVES}")
    texts = fields["q"]
    single = not isinstance(texts, list)
    return service, ([texts] if single else texts), single, alternatives
