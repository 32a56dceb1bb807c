"""OpenNMT-py's interface: ``POST /translator/translate`` and ``GET /translator/models``."""

from __future__ import annotations

from typing import Any, Dict, List

from fastapi import APIRouter
from starlette.requests import Request

from fairseq_specdec.io.local_http import RefusedError

from .bodies import json_of, shown
from .clients import client_of
from .pairs import Pairs
from .service import Service

# Of the first pair; the others follow it. OpenNMT-py's examples have it.
FIRST = 100
_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["src"],
        "properties": {"src": {"type": "string"}, "id": {"type": "integer"}},
    },
}


def opennmt(pairs: Pairs) -> APIRouter:
    router = APIRouter(prefix="/translator", tags=["OpenNMT"])
    body = {"required": True, "content": {"application/json": {"schema": _SCHEMA}}}

    @router.post("/translate", openapi_extra={"requestBody": body})
    async def translate(request: Request) -> List[List[Dict[str, Any]]]:
        """Translate a list of texts: the answer lists their best hypotheses, then the next."""
        given = json_of(await request.body())
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise RefusedError(400, "Invalid request: send a list of objects with src")
        service = _service(pairs, [each.get("id", FIRST) for each in given])
        texts = service.check([each.get("src") for each in given])
        translations = await service.translate(texts, client_of(request, service.limits.deadline))
        ranked = [[one, *one.alternatives] for one in translations]
        widest = max(map(len, ranked))
        return [
            [_hypothesis(text, row[n : n + 1], widest) for text, row in zip(texts, ranked)]
            for n in range(widest)
        ]

    @router.get("/models")
    async def models() -> List[Dict[str, Any]]:
        """The pairs, by the id that requests name."""
        return [
            {"model_id": FIRST + i, "status": "loaded", "name": "-".join(each.languages)}
            for i, each in enumerate(pairs.services)
        ]

    return router


def _service(pairs: Pairs, ids: List[Any]) -> Service:
    """The pair of an id."""
    number = ids[0] if ids else FIRST
    known = range(FIRST, FIRST + len(pairs.services))
    if not isinstance(number, int) or number not in known or ids.count(number) < len(ids):
        raise RefusedError(
            400, f"id {shown(number)}: a request is of one model, of {known[0]} to {known[-1]}"
        )
    return pairs.services[number - FIRST]


def _hypothesis(text: str, ranked: List[Any], count: int) -> Dict[str, Any]:
    """One of a text's hypotheses; an empty one where there are fewer."""
    score, words = (ranked[0].score, ranked[0].text) if ranked else (0.0, "")
    return {"src": text, "tgt": words, "n_best": count, "pred_score": score}
