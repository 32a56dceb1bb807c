"""Any fairseq task that generates text, decoded by this project."""

from .mixin import SpecDecMixin
from .registration import register_specdec

__all__ = ["SpecDecMixin", "register_specdec"]
