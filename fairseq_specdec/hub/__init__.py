"""From Python: load a pair, translate strings. Imported when the first name is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Alternative, Piece, Translation
    from .translator import SpeculativeTranslator

_HOMES = {
    "Alternative": "results",
    "Piece": "results",
    "SpeculativeTranslator": "translator",
    "Translation": "results",
}

__all__ = ["Alternative", "Piece", "SpeculativeTranslator", "Translation"]


def __getattr__(name: str) -> Any:
    """A public name, from its module."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
