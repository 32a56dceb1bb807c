"""Every decoding flag, once: the fields become flags of fairseq's command lines."""

import argparse
import dataclasses
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.tasks.translation import TranslationConfig


@dataclass
class TranslationSpecDecConfig(TranslationConfig):
    """fairseq's translation task, and how to decode it."""

    strategy: str = field(
        default="greedy",
        metadata={
            "help": "decoding strategy: greedy (nothing drafted), iad (the source is the draft), "
            "gad (drafter, exact verification), gad++ or specdec (drafter, top-beta and tau)"
        },
    )
    drafter_path: Optional[str] = field(
        default=None, metadata={"help": "checkpoint of the drafter (gad, gad++)"}
    )
    block_size: Optional[int] = field(
        default=None,
        metadata={
            "help": "k, tokens drafted per iteration; at most what the drafter was trained for "
            "(default: that; for iad the whole rest of the source)"
        },
    )
    drafter_dtype: str = field(
        default="same",
        metadata={
            "help": "number format of the drafter: same (as the verifier), fp32, fp16 or bf16; the "
            "verifier decides, so gad stays exact"
        },
    )
    collapse_repeats: bool = field(
        default=False,
        metadata={
            "help": "drop drafted tokens that repeat the one before them, which parallel drafts "
            "often do and verifiers seldom: more tokens accepted, fewer to verify (gad stays exact)"
        },
    )
    top_beta: int = field(
        default=3,
        metadata={"help": "beta of gad++: a draft token must be among the verifier's beta best"},
    )
    tau: float = field(
        default=1.0,
        metadata={"help": "tau of gad++: and at most this far (in log-probability) below the best"},
    )


def decoding_settings(**changes: Any) -> argparse.Namespace:
    """Every field at its default, with changes: flags for those who come without a command line."""
    fields = dataclasses.asdict(TranslationSpecDecConfig())
    unknown = sorted(set(changes) - set(fields))
    if unknown:
        raise TypeError(f"no such decoding setting: {', '.join(unknown)}")
    return argparse.Namespace(**dict(fields, **changes))
