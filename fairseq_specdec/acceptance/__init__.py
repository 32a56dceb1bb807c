"""Acceptance rules: which draft tokens the verifier keeps (pure tensor functions)."""

from .base import Acceptance, AcceptanceRule, NativeRule, leading
from .block_verification import BlockVerificationRule
from .distance import DistanceRule
from .exact import ExactRule
from .minimum_block import MinimumBlockRule
from .regret_budget import RegretBudgetRule
from .rollback import RollbackRule
from .sampling import Sampler, SamplingRule
from .top_beta import TopBetaRule

__all__ = [
    "Acceptance",
    "AcceptanceRule",
    "BlockVerificationRule",
    "DistanceRule",
    "ExactRule",
    "MinimumBlockRule",
    "NativeRule",
    "RegretBudgetRule",
    "RollbackRule",
    "Sampler",
    "SamplingRule",
    "TopBetaRule",
    "leading",
]
