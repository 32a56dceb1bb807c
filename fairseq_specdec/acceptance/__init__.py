"""Acceptance rules: which draft tokens the verifier keeps (pure tensor functions)."""

from .base import Acceptance, AcceptanceRule, leading
from .exact import ExactRule
from .top_beta import TopBetaRule

__all__ = ["Acceptance", "AcceptanceRule", "ExactRule", "TopBetaRule", "leading"]
