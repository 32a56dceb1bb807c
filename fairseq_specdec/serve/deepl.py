"""DeepL's interface: ``POST /v2/translate``, ``GET /v2/languages`` and ``GET /v2/usage``."""

from __future__ import annotations

from typing import Any, Dict, List

from fastapi import APIRouter
from starlette.requests import Request

from fairseq_specdec.io.local_http import RefusedError

from .bodies import asked, body_schema, shown
from .clients import client_of
from .pairs import Pairs

# What would change the text and cannot be honoured, with the values that ask for nothing.
_REFUSED = {
    "custom_instructions": (None, []),
    "formality": (None, "default", "prefer_less", "prefer_more"),
    "glossary_id": (None, ""),
    "glossary_ids": (None, []),
    "style_id": (None, ""),
    "tag_handling": (None, ""),
    "translation_memory_id": (None, ""),
}
# ``split_sentences``, as the hub's ``split``; None is the translator's.
_SPLITS = {"None": None, "0": False, "1": True, "nonewlines": "nonewlines"}
_UNLIMITED = 10**12  # DeepL's value
_SCHEMA = {
    "type": "object",
    "required": ["text", "target_lang"],
    "properties": {
        "text": {"type": "array", "items": {"type": "string"}},
        "source_lang": {"type": "string"},
        "target_lang": {"type": "string"},
        "split_sentences": {"type": "string", "enum": ["0", "1", "nonewlines"]},
    },
}


def deepl(pairs: Pairs) -> APIRouter:
    router = APIRouter(prefix="/v2", tags=["DeepL"])
    characters = 0  # billed since the start

    @router.post("/translate", openapi_extra=body_schema(_SCHEMA))
    async def translate(request: Request) -> Dict[str, Any]:
        """Translate a list of texts."""
        fields = await asked(request, ["text"])
        source = fields.get("source_lang") or None
        texts = fields.get("text")
        texts = [texts] if isinstance(texts, str) else texts
        names = ("source_lang", "target_lang")
        service, _ = pairs.asked(source, fields.get("target_lang"), names, texts)
        for name, harmless in _REFUSED.items():
            if fields.get(name) not in harmless:
                raise RefusedError(400, f"{name} {shown(fields[name])} is not supported")
        split = fields.get("split_sentences")
        if str(split) not in _SPLITS:
            raise RefusedError(
                400, f"split_sentences {shown(split)} is not supported; there are 0, 1, nonewlines"
            )
        texts = service.check(texts)
        client = client_of(request, service.limits.deadline)
        results = await service.translate(texts, client, _SPLITS[str(split)])
        nonlocal characters
        characters += sum(map(len, texts))
        return {
            "translations": [
                {
                    "detected_source_language": pairs.source_of(service).upper(),
                    "text": each.text,
                    "billed_characters": len(text),
                }
                for text, each in zip(texts, results)
            ]
        }

    @router.get("/languages")
    async def languages(request: Request) -> List[Dict[str, Any]]:
        """The source languages, or with ``type=target`` the target languages."""
        # DeepL's own client sends a form.
        kind = (await asked(request, [])).get("type", "source")
        if kind not in ("source", "target"):
            raise RefusedError(
                400, f"type {shown(kind)} is not supported; there are source, target"
            )
        codes = pairs.targets() if kind == "target" else pairs.sources()
        more = {"supports_formality": False} if kind == "target" else {}
        return [{"language": code.upper(), "name": code.upper(), **more} for code in codes]

    @router.get("/usage")
    async def usage() -> Dict[str, int]:
        """Characters of the texts that ``/v2/translate`` answered since the start; no limit."""
        return {"character_count": characters, "character_limit": _UNLIMITED}

    return router
