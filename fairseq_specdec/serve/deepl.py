"""DeepL's interface: ``POST /v2/translate``, ``GET /v2/languages`` and ``GET /v2/usage``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, BeforeValidator
from starlette.requests import Request

from .bodies import Drafted, asked, body_schema
from .pairs import Pairs

# ``split_sentences``, as the hub's ``split``; None is the translator's.
_SPLITS = {None: None, "0": False, "1": True, "nonewlines": "nonewlines"}
_UNLIMITED = 10**12  # DeepL's value


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Translation(Drafted):
    """Texts and languages. What would change the text and cannot be honoured is None."""

    text: Annotated[list[str], BeforeValidator(_listed)]
    target_lang: str
    source_lang: str | None = None
    split_sentences: Annotated[Literal["0", "1", "nonewlines"], BeforeValidator(str)] | None = None
    formality: Literal["default", "prefer_less", "prefer_more"] | None = None
    custom_instructions: None = None
    glossary_id: None = None
    glossary_ids: None = None
    style_id: None = None
    tag_handling: None = None
    translation_memory_id: None = None


class Languages(BaseModel):
    """Which list of languages."""

    type: Literal["source", "target"] = "source"


def add_deepl(app: FastAPI, pairs: Pairs) -> None:
    """Add its routes."""
    characters = 0  # billed since the start

    @app.post("/v2/translate", openapi_extra=body_schema(Translation))
    async def translate(request: Request) -> dict[str, Any]:
        """Translate a list of texts."""
        given = asked(request, Translation)
        service, _ = pairs.asked(given.source_lang, given.target_lang, given.text)
        split = _SPLITS[given.split_sentences]
        results = await service.translate(given.text, request, given, split)
        nonlocal characters
        characters += sum(map(len, given.text))
        source = pairs.source_of(service).upper()
        return {
            "translations": [
                {
                    "detected_source_language": source,
                    "text": each.text,
                    "billed_characters": len(text),
                }
                for text, each in zip(given.text, results)
            ]
        }

    @app.get("/v2/languages")
    async def languages(request: Request) -> list[dict[str, Any]]:
        """The source languages, or with ``type=target`` the target languages."""
        # DeepL's own client sends a form.
        target = asked(request, Languages).type == "target"
        codes = pairs.targets() if target else pairs.sources()
        more = {"supports_formality": False} if target else {}
        return [{"language": code.upper(), "name": code.upper(), **more} for code in codes]

    @app.get("/v2/usage")
    async def usage() -> dict[str, int]:
        """Characters of the texts that ``/v2/translate`` answered since the start; no limit."""
        return {"character_count": characters, "character_limit": _UNLIMITED}
