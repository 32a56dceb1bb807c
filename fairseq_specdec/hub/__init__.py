"""From Python: load a pair, translate strings."""

from .results import Alternative, Piece, Translation
from .translator import SpeculativeTranslator

__all__ = ["Alternative", "Piece", "SpeculativeTranslator", "Translation"]
