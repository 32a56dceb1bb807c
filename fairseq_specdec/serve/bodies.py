"""What clients send: JSON objects and forms."""

import json
from typing import Any, Dict, Iterable

from starlette.requests import Request

from fairseq_specdec.io.local_http import RefusedError


async def asked(request: Request, lists: Iterable[str]) -> Dict[str, Any]:
    """The fields of a request's body.

    Args:
        request: a POST.
        lists: fields of a form that may be given several times; then they are lists.

    Raises:
        RefusedError: the body is neither a JSON object nor a sound form.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/json":
        return _object(await request.body())
    if kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        raise RefusedError(
            400, "Invalid request: send JSON (Content-Type: application/json) or a form"
        )
    form = await form_of(request)
    values = {name: form[name] for name in form}
    for name in lists:
        if len(form.getlist(name)) > 1:
            values[name] = form.getlist(name)
    return values


async def form_of(request: Request) -> Any:
    """The fields of a form, which may hold no files; none where the body is no form. Raises
    RefusedError: it is damaged, or in no charset that can be read."""
    try:
        return await request.form(max_files=0)
    except UnicodeError:  # of a charset such as Python's "undefined"; starlette answers the others
        raise RefusedError(400, "Invalid request: the form is not in its charset") from None


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
