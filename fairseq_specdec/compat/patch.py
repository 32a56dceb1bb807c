"""Wrap a function of another library, once."""

import functools
import inspect
import pkgutil
import types
from collections.abc import Callable
from typing import Any, TypeVar

_MARK = "_fairseq_specdec_fixes"
# (owner, name, stock's function) of what was replaced.
PATCHED: list[tuple[Any, str, Callable[..., Any]]] = []
# (what it replaces, as ``module.Class.function``; the fix) of every fault.
FIXES: list[tuple[tuple[str, ...], Callable[..., Any]]] = []
Fix = TypeVar("Fix", bound=Callable[..., Any])


def fixes(*targets: str) -> Callable[[Fix], Fix]:
    """Register a fix: the decorated function wraps each of ``targets``, functions of another
    library (see ``wrap_once``). Without targets it is called once and patches by itself."""

    def register(fix: Fix) -> Fix:
        FIXES.append((targets, fix))
        return fix

    return register


def apply() -> None:
    """Patch every fault of the installed libraries; a second call changes nothing."""
    for targets, fix in FIXES:
        for target in targets:
            owner, _, name = target.rpartition(".")
            wrap_once(pkgutil.resolve_name(owner), name, fix)
        if not targets:
            fix()


def wrap_once(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
    """Replace ``owner.name`` by a call to ``wrapper(original, *args, **kwargs)``.

    Its name, signature, docstring and place stay. TorchScript compiles the source of the stock
    function, as it would without the fix. What a wrapper of this name wraps already is left, so
    that a second import (or a second copy of the plugin) does not wrap again. For a method,
    ``wrapper`` receives the instance after the original.
    """
    original, fix = getattr(owner, name), f"{wrapper.__module__}.{wrapper.__qualname__}"
    done = getattr(original, _MARK, ())
    if fix in done:
        return

    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    # TorchScript takes the source from ``__wrapped__`` and looks its names up in the function's
    # own globals: they must be those of the original's module.
    names = original.__globals__
    fixed = types.FunctionType(call.__code__, names, original.__name__, None, call.__closure__)
    functools.update_wrapper(fixed, original)
    fixed.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    if not done:
        PATCHED.append((owner, name, original))
    setattr(fixed, _MARK, (*done, fix))
    setattr(owner, name, fixed)
