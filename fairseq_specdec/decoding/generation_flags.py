"""fairseq's own generation flags: those that cannot be honoured, and what the others ask for."""

import logging
import math
from typing import Any

from fairseq_specdec.acceptance import AcceptanceRule, Sampler
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import flag_of

from .strategies import STRATEGIES

logger = logging.getLogger(__name__)

# Generation flags that cannot be honoured, with the value that means "not used".
REFUSED = {
    "constraints": None,
    "lm_path": None,
    "diverse_beam_groups": -1,
    "diversity_rate": -1.0,
    "match_source_len": False,
    "sampling": False,
    "sampling_topk": -1,
    "sampling_topp": -1.0,
    "retain_dropout": False,
    "print_alignment": None,
    "replace_unk": None,
    "prefix_allowed_tokens_fn": None,
    "score_reference": False,
}


def check_generation_flags(args: Any, strategy: str) -> None:
    """Refuse, by name, generation flags that would be ignored."""
    samples = STRATEGIES[strategy].sampled_rule is not None
    for name, unused in REFUSED.items():
        if samples and name.startswith("sampling"):
            continue
        value = getattr(args, name, unused)
        if value != unused and value is not False and value is not None:
            raise UsageError(
                flag_of(name),
                "cannot be honoured by speculative decoding",
                "leave it out, or decode with --task translation",
            )
    size = getattr(args, "no_repeat_ngram_size", 0)
    if size and not STRATEGIES[strategy].verifies:
        raise UsageError(
            f"--no-repeat-ngram-size {size}",
            f"--strategy {strategy} chooses a block's tokens at once and cannot forbid repetitions",
            "use --strategy gad",
        )
    if not getattr(args, "temperature", 1.0) > 0:
        raise UsageError("--temperature", "must be greater than 0")
    for name in ("temperature", "lenpen", "unkpen", "max_len_a"):
        value = getattr(args, name, 1.0)
        # An unlimited penalty forbids <unk>, in stock too.
        if not math.isfinite(value) and (name, value) != ("unkpen", math.inf):
            raise UsageError(f"{flag_of(name)} {value}", "must be a finite number")


def beam_of(args: Any, strategy: str, rule: AcceptanceRule, words: int) -> int:
    """Hypotheses of a sentence, from ``--beam``; 1 where the rule is not lossless."""
    asked, nbest = getattr(args, "beam", 1), getattr(args, "nbest", 1)
    for name, count in (("beam", asked), ("nbest", nbest)):
        if count < 1:
            raise UsageError(f"--{name} {count}", "must be 1 or more")
    which = "--sampling" if getattr(args, "sampling", False) else f"--strategy {strategy}"
    if not rule.lossless and nbest > 1:
        raise UsageError(
            f"--nbest {nbest}",
            f"{which} with these flags decodes one hypothesis",
            "use --beam 1 --nbest 1, or a lossless strategy (gad, iad, sps, blockwise, greedy) "
            "without --sampling",
        )
    if nbest > asked:
        raise UsageError(
            f"--nbest {nbest}", f"there are --beam {asked} hypotheses", f"use --beam {nbest}"
        )
    if not rule.lossless:
        if asked > 1:
            said = "--beam %d: %s with these flags decodes one hypothesis (beam 1)"
            logger.info(said, asked, which)
        return 1
    if asked > words - 2:
        raise UsageError(
            f"--beam {asked}",
            f"the target dictionary has {words} entries",
            f"use --beam {words - 2} or less",
        )
    return int(asked)


def sampler_of(args: Any) -> Sampler | None:
    """How to draw tokens, from ``--sampling``, ``--sampling-topk`` and ``--sampling-topp``. Returns
    None without ``--sampling``."""
    given: dict[str, Any] = {}
    for name in ("sampling_topk", "sampling_topp"):
        value = getattr(args, name, REFUSED[name])
        given[name[len("sampling_") :]] = None if value == REFUSED[name] else value
    sampler = Sampler(**given)
    if getattr(args, "sampling", False):
        return sampler
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"--sampling-{name}", "needs --sampling")
    return None
