"""Advice from the figures of a run, for the log and for programs."""

from typing import Any, NamedTuple

from .stats import DecodingStats
from .strategies import OWN_FLAGS, STRATEGIES

# Fewer iterations than this are too few for advice.
ENOUGH = 50
# Share of the iterations without a draft from which on there is advice.
MANY_UNDRAFTED = 0.2
# Strategies that leave drafts out where these would cost time.
PAUSING = OWN_FLAGS["draft_budget"]


class Advice(NamedTuple):
    """One piece of advice."""

    # ``relaxed``, ``format``, ``wide_weights`` or ``undrafted``
    name: str  # for programs
    text: str  # a sentence with the remedy


def advice(stats: DecodingStats, strategy: str, options: Any, lossless: bool) -> list[Advice]:
    """Advice for the user at the end of a run."""
    advices = []
    if not lossless:
        what = "is relaxed" if options.verifies else "verifies nothing"
        text = f"--strategy {strategy} with these flags {what}: the output may differ from "
        advices.append(
            Advice("relaxed", text + "fairseq's; a lossless strategy (gad, iad) keeps it")
        )
    if options.verifier_format != "fp32":
        text = f"--verifier-dtype {options.verifier_format}: the output may differ from fairseq's"
        advices.append(Advice("format", text + "; fp32 keeps it"))
    if stats.wide_weights:
        text = (
            "the verifier's weights fill 32 bits, and each pass reads them: --verifier-dtype bf16 "
            "reads half as much, with which the output may differ from fairseq's; weights trained "
            "with --fp16 fit into 16 bits without that"
        )
        advices.append(Advice("wide_weights", text))
    drafts = strategy not in ("greedy", "none") and strategy in STRATEGIES
    if drafts and options.beam == 1 and stats.iterations >= ENOUGH:
        advices += _about_drafts(stats, strategy)
    return advices


def _about_drafts(stats: DecodingStats, strategy: str) -> list[Advice]:
    advices = []
    share = stats.undrafted_share
    if strategy in PAUSING and share >= MANY_UNDRAFTED:
        remedy = "try --batch-size 1"
        if strategy in OWN_FLAGS["max_suffix"]:
            remedy += ", or the text copies little of its source"
        text = f"nothing was drafted in {100 * share:.0f}% of the iterations, where drafts would "
        advices.append(Advice("undrafted", f"{text}have cost more time than they save; {remedy}"))
    return advices
