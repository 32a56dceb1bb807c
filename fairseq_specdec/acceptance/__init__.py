"""Acceptance rules: which draft tokens the verifier keeps (pure tensor functions)."""

from .rules import (
    Acceptance,
    AcceptanceRule,
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    TopBetaRule,
    judged,
    leading,
)
from .sampling import BlockVerificationRule, RollbackRule, Sampler, SamplingRule

__all__ = [
    "Acceptance",
    "AcceptanceRule",
    "BlockVerificationRule",
    "DistanceRule",
    "ExactRule",
    "MinimumBlockRule",
    "RollbackRule",
    "Sampler",
    "SamplingRule",
    "TopBetaRule",
    "judged",
    "leading",
]
