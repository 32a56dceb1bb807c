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
            "help": "decoding strategy: greedy or none (nothing drafted; the default), iad (the "
            "source is the draft), gad (drafter, exact verification), gad++ or specdec (drafter, "
            "top-beta and tau), sps (speculative sampling with a small autoregressive model; exact "
            "without --sampling), bild (Big Little Decoder with a small model), bild-early-exit "
            "(the same, with the first layers of an early_exit_transformer as the small model), "
            "blockwise (heads of a blockwise_transformer)"
        },
    )
    drafter_path: Optional[str] = field(
        default=None,
        metadata={
            "help": "checkpoint of the drafter (gad, gad++, specdec) or of the small model (sps, "
            "bild); required by these (default: none)"
        },
    )
    block_size: Optional[int] = field(
        default=None,
        metadata={
            "help": "k, tokens drafted per iteration, 1 or more, and at most what the drafter was "
            "trained for (default: that; for iad the whole rest of the source; for sps, where it "
            "is gamma, 4; for bild 10)"
        },
    )
    drafter_dtype: str = field(
        default="auto",
        metadata={
            "help": "number format of the drafter: same (as the verifier), fp32, fp16, bf16, (on "
            "the native backend) int8, or auto (int8 on the native backend where drafts do not "
            "change the output and the processor multiplies bytes, else same; the default)"
        },
    )
    backend: str = field(
        default="auto",
        metadata={
            "help": "what runs the models: torch (any device), native (C++, on a CPU, where "
            "fairseq_specdec was built with a compiler) or auto (native where it can; the default)"
        },
    )
    verifier_dtype: str = field(
        default="fp32",
        metadata={
            "help": "number format of the verifier's weights on the native backend: fp32 (the "
            "default), bf16 or int8, with which the output may differ from fairseq's; strategies "
            "that are exact equal --strategy greedy in the same format"
        },
    )
    cuda_graphs: str = field(
        default="auto",
        metadata={
            "help": "replay passes as CUDA graphs: on (on a GPU; fewer kernel launches, more "
            "memory), off, or auto (on cards where make gpu has measured that it pays; the default)"
        },
    )
    threads: Optional[int] = field(
        default=None,
        metadata={
            "help": "CPU threads that share a large product, of this whole process, 1 or more; the "
            "output does not depend on it on the native backend (default: what OMP_NUM_THREADS "
            "says; without it 1 on the native backend, all cores in torch)"
        },
    )
    collapse_repeats: bool = field(
        default=False,
        metadata={
            "help": "drop drafted tokens that repeat the one before them, which parallel drafts "
            "often do and verifiers seldom: more tokens accepted, fewer to verify; gad stays exact "
            "(default: off)"
        },
    )
    draft_confidence: Optional[float] = field(
        default=None,
        metadata={
            "help": "gad, gad++: end a draft before the first token that, with all before it, is "
            "right with less probability than this by the drafter's own estimate, from 0 to 1; gad "
            "stays exact (default: of gad where verifying more tokens would cost more time than it "
            "saves; of gad++ 0, always draft k)"
        },
    )
    sampling_verification: str = field(
        default="block",
        metadata={
            "help": "gad, sps under --sampling: block judges the tokens of a draft together (Sun "
            "et al. 2024), token one by one (Leviathan et al. 2023); the output has the verifier's "
            "distribution with both, and block accepts at least as many tokens (default: block)"
        },
    )
    realign: bool = field(
        default=False,
        metadata={
            "help": "iad: after a mismatch that leaves no unique place to go on, draft from the "
            "likeliest one (a token was replaced, or up to 3 were deleted) where the paper decodes "
            "a token without a draft; iad stays exact (default: off, as the paper)"
        },
    )
    max_suffix: int = field(
        default=3,
        metadata={
            "help": "iad: longest suffix of the output that is looked for in the source to find "
            "where it goes on, in tokens, q + 1 of the paper; 0 or more; iad stays exact (default: "
            "3, as in the authors' code; 0: no limit, as in the paper)"
        },
    )
    draft_budget: Optional[int] = field(
        default=None,
        metadata={
            "help": "iad, gad, sps, and blockwise with exact acceptance, where it changes nothing "
            "but the time: draft tokens of all sentences together that one verification may be "
            "expected to reject, 0 or more (default: as many as pay by the cost of passes, see "
            "--cost-table; 0: always draft k, as the papers do). In a beam "
            "search: prefixes that a pass may score though nothing waits for them; where it is "
            "given, gad and sps draft for beams on a CPU too (torch backend)"
        },
    )
    cost_table: str = field(
        default="auto",
        metadata={
            "help": "what passes take on this processor, which decides how much iad, gad, sps and "
            "exact blockwise draft: a file that specdec-costs wrote, off (the figures of an "
            "ordinary processor), or auto (measured once, in 0.3 s, and kept in the user's cache "
            "folder; the default, also FAIRSEQ_SPECDEC_COST_TABLE)"
        },
    )
    top_beta: int = field(
        default=3,
        metadata={
            "help": "beta of gad++, 1 or more: a draft token must be among the verifier's beta "
            "best (default: 3)"
        },
    )
    tau: float = field(
        default=1.0,
        metadata={
            "help": "tau of gad++, 0 or more: and at most this far (in log-probability) below the "
            "best (default: 1.0)"
        },
    )
    regret_budget: Optional[float] = field(
        default=None,
        metadata={
            "help": "gad++, 0 or more: log-probability that a sentence may give up in all against "
            "the verifier's own choices, beside the limits on each token; 0 keeps only ties "
            "(default: no limit)"
        },
    )
    alpha_fb: float = field(
        default=0.6,
        metadata={
            "help": "alpha_FB of bild, the fallback threshold, from 0 to 1: the small model hands "
            "over to the big one where its largest probability is below this (0: never, 1: always; "
            "default: 0.6)"
        },
    )
    alpha_rb: float = field(
        default=2.0,
        metadata={
            "help": "alpha_RB of bild, the rollback threshold, 0 or more: the big model drops the "
            "first draft token whose -log p is above this, and all after it (0: all tokens, inf: "
            "none; default: 2.0)"
        },
    )
    accept_top_k: Optional[int] = field(
        default=None,
        metadata={
            "help": "blockwise: accept a draft token that is among the verifier's so many best, 1 "
            "or more (top-k selection; default: exact, which is 1)"
        },
    )
    accept_epsilon: Optional[float] = field(
        default=None,
        metadata={
            "help": "epsilon of blockwise, 0 or more: accept a draft token whose number is at most "
            "this far from the verifier's choice; for vocabularies of integers, such as pixels "
            "(default: exact, which is 0)"
        },
    )
    min_block_size: int = field(
        default=1,
        metadata={
            "help": "l of blockwise, from 1 to k: tokens added in every iteration at least, unseen "
            "if need be, whatever else decides (default: 1, which changes nothing)"
        },
    )
    trace_path: Optional[str] = field(
        default=None,
        metadata={
            "help": "write what every iteration drafted, what became of each draft token and how "
            "long it took to this file, JSON lines, one sentence each, once all of them are "
            "decoded; read it with specdec-trace (default: no trace, at no cost)"
        },
    )


def decoding_settings(**changes: Any) -> argparse.Namespace:
    """Every field at its default, with changes: flags for those who come without a command line."""
    fields = dataclasses.asdict(TranslationSpecDecConfig())
    unknown = sorted(set(changes) - set(fields))
    if unknown:
        raise TypeError(f"no such decoding setting: {', '.join(unknown)}")
    return argparse.Namespace(**dict(fields, **changes))
