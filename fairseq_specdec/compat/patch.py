"""Wrap a function of another library, once."""

from __future__ import annotations

import functools
from typing import Any, Callable

_MARK = "_fairseq_specdec_fixes"


def wrap_once(owner: Any, name: str, fix: str, wrapper: Callable[..., Any]) -> None:
    """Replace ``owner.name`` by a call to ``wrapper(original, *args, **kwargs)``.

    Args:
        owner: module or class that holds the function.
        name: its attribute.
        fix: name of the fix; a function already wrapped for it is left as it is, so that a
            second import (or a second copy of the plugin) does not wrap again.
        wrapper: receives the original function first, then the caller's arguments (for a method,
            the instance is the first of them).
    """
    original = getattr(owner, name)
    done = getattr(original, _MARK, ())
    if fix in done:
        return

    @functools.wraps(original)
    def fixed(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(fixed, _MARK, (*done, fix))
    setattr(owner, name, fixed)
