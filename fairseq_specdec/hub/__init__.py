"""From Python: load a pair, translate strings."""

from fairseq_specdec.io.host_logging import host_logging_kept

with host_logging_kept():
    import fairseq_specdec.tasks  # noqa: F401

from .results import Alternative, Piece, Translation  # noqa: E402
from .translator import SpeculativeTranslator  # noqa: E402

__all__ = ["Alternative", "Piece", "SpeculativeTranslator", "Translation"]
