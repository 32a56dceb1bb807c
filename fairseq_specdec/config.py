"""Every decoding flag, once: the fields become flags of fairseq's command lines."""

import argparse
import dataclasses
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks.translation import TranslationConfig

from .engine.backend import BACKENDS
from .engine.exits import CONFIDENCES
from .engine.number_formats import OF_DRAFTERS, PACKED
from .engine.threads import THREADS
from .io.flag_values import AT_LEAST_0, AT_LEAST_1, SHARE, Range, flag

# Strategies that share flags.
_RELAXED = ("gad++", "specdec")
_BLOCK = ("gad", *_RELAXED)
_MASKS = (*_BLOCK, "nar")
_TOLERANT = (*_RELAXED, "specdec-heads")
_SEARCHING = ("iad", "lookup")
_BILD = ("bild", "bild-early-exit")
_NOT_NEGATIVE = Range(0)


@dataclass
class SpecDecConfig(FairseqDataclass):
    """How to decode: what is added to the flags of every task."""

    strategy: str = flag(
        "greedy",
        "decoding strategy: greedy or none (nothing drafted), iad (the source is the draft), "
        "lookup (what followed the last tokens where they occurred before), gad (drafter, exact "
        "verification), gad++ or specdec (drafter, top-beta and tau), nar (the drafter alone, not "
        "lossless), sps (speculative "
        "sampling with a small autoregressive model; exact without --sampling), bild (Big Little "
        "Decoder with a small model), bild-early-exit (the same, with the first layers of an "
        "early_exit_transformer as the small model), calm (tokens leave an early_exit_transformer "
        "where it is sure; nothing drafted, not lossless), blockwise (heads of a "
        "blockwise_transformer), specdec-heads (the same heads, top-beta and tau)",
    )
    drafter_path: Optional[str] = flag(
        None,
        "checkpoint of the drafter (gad, gad++, specdec, nar) or of the small model (sps, bild); "
        "required by these",
    )
    block_size: Optional[int] = flag(
        None,
        "k, tokens drafted per iteration, at most what the drafter was trained for",
        AT_LEAST_1,
        otherwise="what the drafter was trained for; for iad the whole rest of the source; for "
        "lookup 32; for sps, where it is gamma, 4; for bild 10",
    )
    drafter_dtype: str = flag(
        "auto",
        "number format of the drafter: same (as the verifier), fp32, fp16, bf16, (on the native "
        "backend) int8, or auto (int8 on the native backend, for gad++ and where drafts do not "
        "change the output, if the processor multiplies bytes; else same)",
        ("auto", "same", *OF_DRAFTERS),
        used_by=(*_MASKS, "sps", "bild"),
    )
    backend: str = flag(
        "auto",
        "what runs the models: torch (any device), native (C++, on a CPU, where fairseq_specdec "
        "was built with a compiler) or auto (native where it can)",
        BACKENDS,
    )
    verifier_dtype: str = flag(
        "fp32",
        "number format of the verifier's weights on the native backend: fp32, or bf16, int8 or "
        "int7 (in batches faster than int8 with AVX2), with which the output may differ from "
        "fairseq's; strategies that are exact equal --strategy greedy in the same format",
        PACKED,
    )
    cuda_graphs: str = flag(
        "auto",
        "replay passes as CUDA graphs: on (on a GPU; fewer kernel launches, more memory), off, or "
        "auto (up to as many rows as make gpu found that it pays for, else up to 32)",
        ("auto", "on", "off"),
    )
    threads: Optional[int] = flag(
        None,
        "CPU threads that share a large product, of this whole process; the output does not depend "
        "on it on the native backend",
        THREADS,
        otherwise="OMP_NUM_THREADS; without it 1 on the native backend, all cores in torch",
    )
    collapse_repeats: bool = flag(
        False,
        "drop drafted tokens that repeat the one before them, which parallel drafts often do and "
        "verifiers seldom: more tokens accepted, fewer to verify; gad stays exact",
        used_by=_MASKS,
    )
    draft_confidence: Optional[float] = flag(
        None,
        "end a draft before the first token that, with all before it, is right with less "
        "probability than this by the drafter's own estimate; gad stays exact",
        SHARE,
        used_by=_BLOCK,
        otherwise="where verifying more tokens would cost more time than it saves; 0 always drafts "
        "as many as --draft-budget allows",
    )
    sampling_verification: str = flag(
        "block",
        "under --sampling: block judges the tokens of a draft together (Sun et al. 2024), token "
        "one by one (Leviathan et al. 2023); the output has the verifier's distribution with both, "
        "and block accepts at least as many tokens",
        ("block", "token"),
        used_by=("gad", "sps"),
    )
    realign: bool = flag(
        False,
        "after a mismatch that leaves no unique place to go on, draft from the likeliest one (a "
        "token was replaced, or up to 3 were deleted) where the paper decodes a token without a "
        "draft; the output stays exact",
        used_by=("iad",),
        otherwise="off, as the paper",
    )
    edits: Optional[str] = flag(
        None,
        "file of likely edits, which python -m fairseq_specdec.data.edits writes: they are made in "
        "the source before it is copied; the output stays exact",
        used_by=("iad",),
    )
    max_suffix: int = flag(
        3,
        "longest suffix of the output that is looked for in the source to find where it goes on, "
        "in tokens, q + 1 of the paper, where 0 is no limit; the output stays exact",
        AT_LEAST_0,
        used_by=_SEARCHING,
    )
    draft_budget: Optional[int] = flag(
        None,
        "draft tokens of all sentences of a batch together that one verification may be expected "
        "to reject, where 0 always drafts k, as the papers do; only the output of gad++ depends on "
        "it",
        AT_LEAST_0,
        used_by=(*_SEARCHING, *_BLOCK, "sps", "blockwise", "specdec-heads"),
        otherwise="as many as pay by the cost of passes, see --cost-table; gad++ plans for batches "
        "of --batch-size sentences, so that its output follows from the command",
    )
    cost_table: str = flag(
        "auto",
        "what passes take on this processor, by which iad, lookup, gad, sps and exact blockwise "
        "choose how much to draft: a file that python -m fairseq_specdec.costs.cli wrote, off (the "
        "figures of an Intel Emerald Rapids with AVX2, which are shipped), or auto (measured once, "
        "in 0.5 s, and kept in the user's cache folder; also FAIRSEQ_SPECDEC_COST_TABLE); gad++ "
        "always plans by off, so that its output is the same on every machine",
    )
    top_beta: int = flag(
        3,
        "beta: a draft token must be among the verifier's beta best; 1 is exact",
        AT_LEAST_1,
        used_by=_TOLERANT,
    )
    tau: float = flag(
        1.0,
        "tau: a draft token is at most this far (in log-probability) below the verifier's best; 0 "
        "is exact",
        _NOT_NEGATIVE,
        used_by=_TOLERANT,
    )
    regret_budget: Optional[float] = flag(
        None,
        "log-probability that a sentence may give up in all against the verifier's own choices, "
        "beside the limits on each token; 0 is exact",
        _NOT_NEGATIVE,
        used_by=_TOLERANT,
        otherwise="no limit",
    )
    alpha_fb: float = flag(
        0.6,
        "alpha_FB, the fallback threshold: the small model hands over to the big one where its "
        "largest probability is below this (0: never, 1: always)",
        SHARE,
        used_by=_BILD,
    )
    alpha_rb: float = flag(
        2.0,
        "alpha_RB, the rollback threshold: the big model drops the first draft token whose -log p "
        "is above this, and all after it (0: all tokens, inf: none)",
        _NOT_NEGATIVE,
        used_by=_BILD,
    )
    exit_threshold: float = flag(
        0.9,
        "lambda: a token leaves the decoder at the first exit where the confidence is this or more "
        "(1, without --exit-decay: never)",
        SHARE,
        used_by=("calm",),
    )
    exit_confidence: str = flag(
        "softmax",
        "how sure an exit is: softmax (how far its likeliest token's probability is above the "
        "second's) or saturation (the cosine similarity of the states before and after its layer)",
        CONFIDENCES,
        used_by=("calm",),
    )
    exit_decay: Optional[float] = flag(
        None,
        "temperature of the threshold that falls along the output, to "
        "0.9 lambda + 0.1 exp(-temperature t / N) at token t of at most N",
        _NOT_NEGATIVE,
        used_by=("calm",),
        otherwise="one threshold",
    )
    accept_top_k: Optional[int] = flag(
        None,
        "accept a draft token that is among the verifier's so many best (top-k selection); 1 is "
        "exact",
        AT_LEAST_1,
        used_by=("blockwise",),
        otherwise="exact",
    )
    accept_epsilon: Optional[float] = flag(
        None,
        "epsilon: accept a draft token whose number is at most this far from the verifier's "
        "choice, for vocabularies of integers, such as pixels; 0 is exact",
        _NOT_NEGATIVE,
        used_by=("blockwise",),
        otherwise="exact",
    )
    min_block_size: int = flag(
        1,
        "l: tokens added in every iteration at least, unseen if need be, whatever else decides; at "
        "most k, and 1 changes nothing",
        AT_LEAST_1,
        used_by=("blockwise",),
    )
    nar_iterations: int = flag(
        1,
        "passes of the drafter over a block: after the first, its least confident tokens are "
        "predicted again, given the others (Mask-Predict), for drafters trained with glancing",
        AT_LEAST_1,
        used_by=("nar",),
    )
    keep_weights: bool = flag(
        False,
        "keep the models' own weights beside those that are packed for decoding, which takes more "
        "memory, so that the models can be saved, copied or moved after it",
    )
    trace_path: Optional[str] = flag(
        None,
        "write what every iteration drafted, what became of each draft token and how long it took "
        "to this file, JSON lines, one sentence each, once all of them are decoded; read it with "
        "specdec-trace",
    )


@dataclass
class TranslationSpecDecConfig(SpecDecConfig, TranslationConfig):
    """fairseq's translation task, and how to decode it."""


OWN_FIELDS = tuple(each for each in dataclasses.fields(SpecDecConfig) if each.name != "_name")
"""The fields of this project."""


def decoding_settings(**changes: Any) -> argparse.Namespace:
    """Every field at its default, with changes: flags for those who come without a command line."""
    fields = dataclasses.asdict(SpecDecConfig())
    unknown = sorted(set(changes) - set(fields))
    if unknown:
        raise TypeError(f"no such decoding setting: {', '.join(unknown)}")
    return argparse.Namespace(**dict(fields, **changes))
