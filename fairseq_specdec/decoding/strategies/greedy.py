"""``greedy``: nothing is drafted."""

from fairseq_specdec.drafting import Drafter, NoDrafter

from .base import Setup, Strategy, exact_rule, sampling_rule


def _drafter(setup: Setup) -> Drafter:
    return NoDrafter()


GREEDY = Strategy("nothing drafted", _drafter, exact_rule, sampled_rule=sampling_rule)
