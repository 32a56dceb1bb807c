"""What clients send, JSON, forms and query strings, by models."""

from __future__ import annotations

import json
import reprlib
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
Model = TypeVar("Model", bound=BaseModel)


class Drafted(BaseModel):
    """What outputs are expected to be like. ``draft``: as the hub takes it. ``context_id``: the
    client's, whose nearest recent output is the draft of what has none."""

    draft: str | list[str | None] | None = None
    context_id: str | None = Field(None, max_length=64)


def shown(value: object) -> str:
    """A value of a request in an error: short, and in ASCII."""
    if isinstance(value, str):
        return ascii(value)[:40]
    # Nested more deeply than Python allows a representation to be.
    return reprlib.repr(value).encode("ascii", "backslashreplace").decode()[:40]


async def fields_of(request: Request) -> dict[str, Any]:
    """The fields of a request's body, and those of its query string that the body does not have. A
    field that is given several times is a list, an empty one counts as none. Raises HTTPException:
    the body is neither a JSON object nor a sound form."""
    fields = {**_listed(request.query_params), **await _of_body(request)}
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


async def _of_body(request: Request) -> dict[str, Any]:
    body = await request.body()
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    problem = "send JSON (Content-Type: application/json) or a form"
    try:
        if not body:
            return {}
        if kind == "application/json":
            problem = "the body is no JSON object"
            content = json.loads(body.decode("utf-8"))
            if isinstance(content, dict):
                return content
        elif kind in _FORMS:
            problem = "the form is damaged, or not in its charset"
            return _listed(await request.form(max_files=0))
    except (ValueError, RecursionError, MultiPartException):
        pass
    raise HTTPException(400, f"Invalid request: {problem}")


def _listed(given: ImmutableMultiDict[str, Any]) -> dict[str, Any]:
    values = {name: given.getlist(name) for name in given}
    return {name: each if len(each) > 1 else each[0] for name, each in values.items()}


def asked(request: Request, model: type[Model]) -> Model:
    """The fields of a request, which ``Guard`` has read. Raises HTTPException: a
    field is wrong."""
    try:
        return model.model_validate(request.scope["fields"])
    except ValidationError as error:
        first = error.errors()[0]
        name = first["loc"][0]
        problem = f"{name} {shown(first['input'])}: {first['msg']}"
        if first["type"] == "missing":
            problem = f"missing {name} parameter"
        raise HTTPException(400, f"Invalid request: {problem}") from None


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI's description of a body that is JSON or a form."""
    schema = {"schema": model.model_json_schema()}
    content = {kind: schema for kind in ("application/json", _FORMS[0])}
    return {"requestBody": {"required": True, "content": content}}
