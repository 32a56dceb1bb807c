"""From Python: load a pair, translate strings."""

from .results import Piece, Translation
from .translator import SpeculativeTranslator

__all__ = ["Piece", "SpeculativeTranslator", "Translation"]
