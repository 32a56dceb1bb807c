"""What clients send, JSON, forms and query strings, by models; and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

_EMPTY: tuple[Any, ...] = (None, "", [])
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
# pydantic's names of errors of a value that is none of those that are known
_UNKNOWN = ("literal_error", "none_required")
Model = TypeVar("Model", bound=BaseModel)


class RefusedError(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        message: what is wrong and what to do.
        retry_after: seconds after which to ask again, or None.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


def shown(value: Any) -> str:
    """A value of a request in an error: short, and in ASCII."""
    return ascii(value)[:40]


async def asked(request: Request, model: type[Model], lists: Iterable[str] = ()) -> Model:
    """What a request asks for: the fields of its body, and those of its query string that the body
    does not have. An empty field counts as none.

    Args:
        lists: fields of a form that may be given several times; then they are lists.

    Raises:
        RefusedError: the body is neither a JSON object nor a sound form, or a field is wrong.
    """
    fields = {**_fields(request.query_params, lists), **await _of_body(request, lists)}
    try:
        return model.model_validate({k: v for k, v in fields.items() if v not in _EMPTY})
    except ValidationError as error:
        raise RefusedError(400, _problem(error.errors()[0])) from None


def _problem(error: Any) -> str:
    name, given = error["loc"][0], error["input"]
    if error["type"] == "missing":
        return f"Invalid request: missing {name} parameter"
    if error["type"] in _UNKNOWN:
        there = f"; there is {error['ctx']['expected']}" if "ctx" in error else ""
        return f"{name} {shown(given)} is not supported{there}"
    return f"Invalid request: {name} {shown(given)}: {error['msg']}"


async def _of_body(request: Request, lists: Iterable[str]) -> dict[str, Any]:
    body = await request.body()
    if not body:
        return {}
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/json":
        try:
            content = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError):
            raise RefusedError(400, "Invalid request: the body is no JSON") from None
        if not isinstance(content, dict):
            raise RefusedError(400, "Invalid request: the body is no JSON object")
        return content
    if kind not in _FORMS:
        raise RefusedError(
            400, "Invalid request: send JSON (Content-Type: application/json) or a form"
        )
    try:
        return _fields(await request.form(max_files=0), lists)
    except UnicodeError:  # of a charset such as Python's "undefined"; starlette answers the others
        raise RefusedError(400, "Invalid request: the form is not in its charset") from None


def _fields(given: Any, lists: Iterable[str]) -> dict[str, Any]:
    """The last value of each field; all values of a field of ``lists`` that has several."""
    every = {name: given.getlist(name) for name in given}
    return {
        name: values if name in lists and len(values) > 1 else values[-1]
        for name, values in every.items()
    }


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI's description of a body that is JSON or a form."""
    schema = {"schema": model.model_json_schema()}
    content = {kind: schema for kind in ("application/json", _FORMS[0])}
    return {"requestBody": {"required": True, "content": content}}
