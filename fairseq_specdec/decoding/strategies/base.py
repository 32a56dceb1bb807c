"""A strategy, and what its drafter may be made from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional

from fairseq_specdec.acceptance import (
    AcceptanceRule,
    BlockVerificationRule,
    ExactRule,
    Sampler,
    SamplingRule,
)
from fairseq_specdec.drafting import Drafter, DraftOptions
from fairseq_specdec.drafting.vocabulary import Vocabulary
from fairseq_specdec.engine.backend import BACKENDS, THREADS, anew
from fairseq_specdec.engine.devices import OF_DRAFTERS, PACKED
from fairseq_specdec.io.flag_values import AT_LEAST_0, AT_LEAST_1, Range, flag

# By ``--sampling-verification``.
SAMPLING_RULES: dict[str, Callable[[Sampler], AcceptanceRule]] = {
    "block": BlockVerificationRule,
    "token": SamplingRule,
}


# ---- flags of all or several strategies ----------------------------------------------------------


@dataclass
class CommonFlags:
    """Flags of all strategies; those of one are in its file."""

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
    backend: str = flag(
        "auto",
        "what runs the models: torch (any device), native (C++, on a CPU, where fairseq_specdec "
        "was built with a compiler) or auto (native where it can)",
        BACKENDS,
    )
    verifier_dtype: str = flag(
        "fp32",
        "precision of the verifier's weights on the native backend: fp32, or bf16, int8 or "
        "int7 (in batches faster than int8 with AVX2), with which the output may differ from "
        "fairseq's; strategies that are exact equal --strategy greedy in the same format",
        PACKED,
    )
    cuda_graphs: str = flag(
        "auto",
        "replay passes as CUDA graphs: on (on a GPU; fewer kernel launches, more memory), off, "
        "auto (up to 32 rows), or compiled (on, and torch.compile fuses the kernels of each pass "
        "first, which takes minutes; not measured yet)",
        ("auto", "on", "off", "compiled"),
    )
    threads: Optional[int] = flag(
        None,
        "CPU threads that share a large product, of this whole process; the output does not depend "
        "on it on the native backend",
        THREADS,
        otherwise="OMP_NUM_THREADS; without it 1 on the native backend, all cores in torch",
    )
    keep_weights: bool = flag(
        False,
        "keep the models' own weights beside those that are packed for decoding, which takes more "
        "memory, so that the models can be saved, copied or moved after it",
    )
    trace_path: Optional[str] = flag(
        None,
        "write what every iteration drafted, what became of each draft token and how long it took "
        "to this file, one JSON line per sentence, once all of them are decoded; read it with "
        "specdec-trace",
    )


@dataclass
class VocabularyFlags:
    """Flags of strategies with the speculative vocabulary (``drafting/vocabulary.py``)."""

    vocabulary_list: Optional[str] = flag(
        None,
        "file with one token of the target dictionary per line, those that outputs mostly consist "
        "of: on the native backend, at --beam 1, most steps choose among them, and one product of "
        "the whole vocabulary decides several steps; the output is the same",
        otherwise="the first tokens of a large dictionary",
    )
    vocabulary_window: Optional[int] = flag(
        None,
        "steps between two products of the whole vocabulary, where 1 uses no list",
        Range(1, 64, whole=True),
        otherwise="as many as pay by the measured time of steps",
    )


@dataclass
class BudgetFlags:
    """Flags of strategies that may draft less than a whole block."""

    draft_budget: Optional[int] = flag(
        None,
        "draft tokens of all sentences of a batch together that one verification may be expected "
        "to reject, where 0 always drafts k, as the papers do; only the output of gad++ depends on "
        "it",
        AT_LEAST_0,
        otherwise="as many as pay by the measured time of passes; gad++ plans for batches of "
        "--batch-size sentences by a fixed table, so that its output follows from the command",
    )


@dataclass
class DrafterFlags:
    """Flags of strategies whose drafter is a model."""

    drafter_dtype: str = flag(
        "auto",
        "precision of the drafter: same (as the verifier), fp32, fp16, bf16, (on the native "
        "backend) int8, or auto (int8 on the native backend, for gad++ and where drafts do not "
        "change the output, if the processor multiplies bytes; else same)",
        ("auto", "same", *OF_DRAFTERS),
    )


@dataclass
class SamplingFlags:
    """Flags of strategies that verify drafts under ``--sampling``."""

    sampling_verification: str = flag(
        "block",
        "under --sampling: block judges the tokens of a draft together (Sun et al. 2024), token "
        "one by one (Leviathan et al. 2023); the output has the verifier's distribution with both, "
        "and block accepts at least as many tokens",
        ("block", "token"),
    )


# ---- strategies ----------------------------------------------------------------------------------


class Setup(NamedTuple):
    """What a strategy's drafter may be made from.

    Attributes:
        settings: the fields of ``SpecDecConfig``.
        models: the ensemble.
        src_dict, tgt_dict: dictionaries.
        load: reads ``--drafter-path``: ``load(path, src_dict, tgt_dict, read, number_format)``,
            where ``read`` is ``load_drafter`` or ``load_small_model``.
        eos: token id that ends an output, and the decoder's first input.
        sampler: how to draw tokens under ``--sampling``; None without it.
        temperature: ``--temperature``.
        quickest: precision in which drafts take least time; None for the verifier's.
        draft_independent: the output does not depend on the drafts.
        beam: hypotheses of a sentence.
        once: a ``Once`` of all generators that share what is read.
        vocabulary: what the verifier chooses among first; None for all tokens.
    """

    settings: Any
    models: list[Any]
    src_dict: Any
    tgt_dict: Any
    load: Callable[[str, Any, Any, Callable, str | None], Any]
    eos: int
    sampler: Sampler | None = None
    temperature: float = 1.0
    quickest: str | None = None
    draft_independent: bool = True
    beam: int = 1
    once: Callable[..., Any] = anew
    vocabulary: Vocabulary | None = None

    @property
    def number_format(self) -> str | None:
        """The drafter's; None for the verifier's."""
        asked: str = self.settings.drafter_dtype
        return {"auto": self.quickest, "same": None}.get(asked, asked)

    def read_drafter(self, read: Callable) -> Any:
        """The model of ``--drafter-path``, for decoding; ``read`` as in ``load``."""
        path = self.settings.drafter_path
        return self.load(path, self.src_dict, self.tgt_dict, read, self.number_format).eval()

    def draft_options(self, block_size: int, **more: Any) -> DraftOptions:
        """How a drafter that is a model drafts, by the flags that all such drafters share."""
        return DraftOptions(
            block_size, self.tgt_dict.pad(), self.eos, self.number_format,
            any_format=self.settings.drafter_dtype == "auto", temperature=self.temperature,
            sampler=self.sampler, **more,
        )  # fmt: skip


class Strategy(NamedTuple):
    """What a system of the papers is made of.

    Attributes:
        help: what it drafts and accepts, for the help of ``--strategy``.
        drafter: makes the drafter.
        rule: makes the acceptance rule from the flags; raises ValueError, naming the flags, where
            they contradict one another.
        flags: dataclasses of the flags that it reads, made by ``flag``. Strategies without them
            refuse them.
        needs_drafter: ``--drafter-path`` must be given (else it must not be).
        sampled_rule: makes the rule under ``--sampling``; None where that flag is refused.
        joined_dictionary: source and target must have one dictionary.
        stated: those of ``flags`` that a trace names at any value, as they decide what the rule
            accepts or when drafting stops; others are named where they differ from their default.
        plans_once: where the output depends on what is drafted, drafts may be shortened by one plan
            for the batch. Else they are whole there.
        falls_back: a small model drafts token by token, so a benchmark counts its fallbacks and
            rollbacks (Kim et al. 2023, Algorithm 1 and Table 4).
        verifies: the models of ``--path`` decide what is emitted. Without, they do not run at all,
            and the drafter's tokens are the output.
    """

    help: str
    drafter: Callable[[Setup], Drafter]
    rule: Callable[[Any], AcceptanceRule]
    flags: tuple[type[Any], ...] = ()
    needs_drafter: bool = False
    sampled_rule: Callable[[Any, Sampler], AcceptanceRule] | None = None
    joined_dictionary: bool = False
    stated: frozenset[str] = frozenset()
    plans_once: bool = False
    falls_back: bool = False
    verifies: bool = True


def exact_rule(settings: Any) -> AcceptanceRule:
    """The rule of lossless strategies without ``--sampling``."""
    return ExactRule()


def sampling_rule(settings: Any, sampler: Sampler) -> AcceptanceRule:
    """The rule of lossless strategies under ``--sampling``."""
    return SAMPLING_RULES[settings.sampling_verification](sampler)
