"""Draft-then-verify decoding for fairseq, as a plugin: ``--user-dir fairseq_specdec``.

Importing the package patches faults of the installed fairseq, torch and numpy (see ``compat``),
and registers the tasks, models and criterions: at once where fairseq is imported already, else
when it is (see ``loading``). It prints nothing, and leaves the root logger as it was.
"""

if __name__ != "fairseq_specdec":
    # fairseq calls a --user-dir as its folder is called; the commands import it by its own name,
    # and two of it cannot be registered.
    raise ImportError(
        f"--user-dir {__path__[0]}: the plugin works under its own name only; "
        "call the folder, or the link to it, fairseq_specdec"
    )

from importlib import import_module  # noqa: E402
from typing import Any  # noqa: E402

from .loading import on_demand  # noqa: E402
from .version import __version__  # noqa: E402

on_demand.prepare()


def __getattr__(name: str) -> Any:
    """Subpackages that are imported when they are first asked for."""
    if name in ("compat", *on_demand.PARTS):
        return import_module(f"{__name__}.{name}")
    if name in ("SpecDecMixin", "register_specdec"):
        return getattr(import_module(f"{__name__}.families"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "SpecDecMixin",
    "__version__",
    "compat",
    "criterions",
    "models",
    "register_specdec",
    "tasks",
]
