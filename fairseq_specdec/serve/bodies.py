"""What clients send: JSON objects, forms and query strings."""

import json
from typing import Any, Dict, Iterable

from starlette.requests import Request

from fairseq_specdec.io.local_http import RefusedError


async def asked(request: Request, lists: Iterable[str]) -> Dict[str, Any]:
    """The fields of a request: those of its body, and those of its query string that the body
    does not have.

    Args:
        request: its body may be empty.
        lists: fields of a form that may be given several times; then they are lists.

    Raises:
        RefusedError: the body is neither a JSON object nor a sound form.
    """
    return {**_fields(request.query_params, lists), **await _of_body(request, lists)}


async def _of_body(request: Request, lists: Iterable[str]) -> Dict[str, Any]:
    if not await request.body():
        return {}
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/json":
        return _object(await request.body())
    if kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        raise RefusedError(
            400, "Invalid request: send JSON (Content-Type: application/json) or a form"
        )
    try:
        return _fields(await request.form(max_files=0), lists)
    except UnicodeError:  # of a charset such as Python's "undefined"; starlette answers the others
        raise RefusedError(400, "Invalid request: the form is not in its charset") from None


def _fields(given: Any, lists: Iterable[str]) -> Dict[str, Any]:
    """The last value of each field; all values of a field of ``lists`` that has several."""
    every = {name: given.getlist(name) for name in given}
    return {
        name: values if name in lists and len(values) > 1 else values[-1]
        for name, values in every.items()
    }


def _object(body: bytes) -> Dict[str, Any]:
    content = json_of(body)
    if not isinstance(content, dict):
        raise RefusedError(400, "Invalid request: the body is no JSON object")
    return content


def json_of(body: bytes) -> Any:
    """What a body in JSON holds."""
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RefusedError(400, "Invalid request: the body is no JSON") from None


def shown(value: Any) -> str:
    """A value of a request in an error: short, and in ASCII."""
    return ascii(value)[:40]


def body_schema(schema: Dict[str, Any]) -> Dict[str, Any]:
    """OpenAPI's description of a body that is JSON or a form."""
    kinds = ("application/json", "application/x-www-form-urlencoded")
    content = {kind: {"schema": schema} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}
