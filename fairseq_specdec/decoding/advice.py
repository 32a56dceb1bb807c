"""Advice from the figures of a run, for the log."""

from .options import DecodingOptions
from .stats import DecodingStats
from .strategies import OWN_FLAGS

# Fewer iterations than this are too few for advice.
ENOUGH = 50
# Share of the iterations without a draft from which on there is advice.
MANY_UNDRAFTED = 0.2


def advice(
    stats: DecodingStats, strategy: str, options: DecodingOptions, lossless: bool
) -> list[str]:
    """For the user at the end of a run: sentences with the remedy."""
    lines = []
    if not lossless:
        what = "is relaxed" if options.verifies else "verifies nothing"
        lines.append(
            f"--strategy {strategy} with these flags {what}: the output may differ from fairseq's; "
            "a lossless strategy (gad, iad) keeps it"
        )
    if options.verifier_format != "fp32":
        lines.append(
            f"--verifier-dtype {options.verifier_format}: the output may differ from fairseq's; "
            "fp32 keeps it"
        )
    # Other strategies never leave a draft out where it would cost time.
    pauses = strategy in OWN_FLAGS["draft_budget"] and options.beam == 1
    if pauses and stats.iterations >= ENOUGH and stats.undrafted_share >= MANY_UNDRAFTED:
        remedy = "try --batch-size 1"
        if strategy in OWN_FLAGS["max_suffix"]:
            remedy += ", or the text copies little of its source"
        lines.append(
            f"nothing was drafted in {100 * stats.undrafted_share:.0f}% of the iterations, where "
            f"drafts would have cost more time than they save; {remedy}"
        )
    return lines
