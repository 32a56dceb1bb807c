"""What decodes batches, and what those of greedy decoding and of beam search have in common."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.drafting import Drafter, Source
from fairseq_specdec.drafting.base import DraftSession, SilentSession
from fairseq_specdec.drafting.vocabulary import Vocabulary
from fairseq_specdec.engine.memory import not_finite
from fairseq_specdec.engine.transformer import Verifier
from fairseq_specdec.errors import UsageError

from .iteration import UNTRACED, Iteration, SentenceTrace
from .native_chains import NativeForm
from .options import DecodingOptions
from .pace import DraftBudget, Planning
from .policy import DecodingConstraints
from .stats import DecodingStats

# What else to look at where an output is no number.
DOUBTFUL = "is the checkpoint sound, and does it decode without --fp16?"


class DecodingParts(NamedTuple):
    """What decodes a batch. Batches of many threads share it: nothing of it changes but what
    ``planning`` learns.

    Attributes:
        rule: accepts draft tokens; not asked by beam search.
        native: the native library's description of it, where it decodes; else None.
        planning: decides how much to draft; None for whole drafts.
        vocabulary: what the library chooses among first; None for all tokens.
    """

    verifier: Verifier
    drafter: Drafter
    rule: AcceptanceRule
    policy: DecodingConstraints
    options: DecodingOptions
    native: NativeForm | None
    planning: Planning | None
    vocabulary: Vocabulary | None


class OpenBatch:
    """The sessions of one batch, opened. ``close`` ends them.

    Attributes:
        finished: the hypotheses of each sentence, best first; None while it is live.
        ended: the sentences that are not live any more, in the order in which they ended.
        iterations: those done so far, if the options ask for a trace.
        limits: of the rows' lengths.
        max_len: most tokens before </s> of any row.

    Args:
        prefix: long [B, P] forced first tokens, padded on the right; or None.
        bos_token: first decoder input instead of </s>.
        sentences: of a full batch.
        draft_tokens: long [B, D], texts that the outputs are expected to be like, each with </s>,
            padded; or None.
    """

    widest: int  # the cache is prepared for blocks of so many tokens

    def __init__(
        self,
        parts: DecodingParts,
        net_input: dict[str, Any],
        prefix: Tensor | None,
        bos_token: int | None,
        sentences: int,
        draft_tokens: Tensor | None = None,
    ) -> None:
        self.parts = parts
        self.started = time.perf_counter()
        self.stats = DecodingStats()
        src_tokens = net_input["src_tokens"]
        self.device = src_tokens.device
        rows = src_tokens.size(0)
        self.limits = parts.policy.length_limits(net_input)
        self.max_len = self.limits.longest
        timer = self.stats.stopwatch
        timer.on(self.device)
        with timer("encoder"):
            encoder_outs = parts.verifier.encode(net_input)
        with timer("verifier"):
            self.session = parts.verifier.open(encoder_outs, self.max_len, self.widest)
        full = sentences if parts.options.plans_once else None
        self.budget = DraftBudget(parts.planning, parts.drafter.ends_early, full)
        self.budget.plan(rows)
        encoder_out = encoder_outs[0] if encoder_outs else {}
        verifier = self.session.sessions[0] if encoder_outs else None
        source = Source(net_input, encoder_out, self.max_len, timer, verifier, draft_tokens)
        over = self.budget.over
        self.drafts: DraftSession = SilentSession() if over else parts.drafter.open(source)
        if self.drafts.never_drafts and not over:
            self.budget.planning = None  # the drafter cannot read this batch
        self.iterations: list[Iteration] = []
        self.finished: list[Any] = [None] * rows
        self.ended: list[int] = []
        self.begin(src_tokens, parts.policy.eos if bos_token is None else bos_token, prefix)

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        """Begin the search with this symbol."""
        raise NotImplementedError

    @property
    def live(self) -> bool:
        """Whether a sentence is left."""
        return len(self.ended) < len(self.finished)

    def iterate(self, max_iterations: int = 1) -> None:
        """One iteration for every live sentence, or several, at most so many."""
        raise NotImplementedError

    def results(
        self, max_iterations: int | None = None
    ) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Decode to the end, and hand out each sentence when it has ended: its number in the batch
        and its hypotheses, best first.

        Args:
            max_iterations: done between two looks at what has ended; None for as many as a call can
                do, which stops where a row of greedy decoding ends, and not in beam search.
        """
        while self.live:
            before = len(self.ended)
            self.iterate(self.max_len + 1 if max_iterations is None else max_iterations)
            for sentence in self.ended[before:]:
                yield sentence, self.finished[sentence]

    def store(self, sentence: int, hypotheses: list[dict[str, Any]]) -> None:
        """Keep the hypotheses of a sentence that has ended."""
        self.finished[sentence] = hypotheses
        self.ended.append(sentence)
        self.stats.sentences += 1

    def trace(self, sentence: int) -> SentenceTrace:
        """The iterations of a sentence so far, if the options ask for them."""
        if not self.parts.options.keep_trace:
            return UNTRACED
        if self.finished[sentence] is not None:
            ended: SentenceTrace = self.finished[sentence][0]["iterations"]
            return ended
        sampled = self.parts.rule.needs_draft_probabilities
        return SentenceTrace(self.iterations, sentence, sampled)

    def refuse(self, broken: bool, position: int, sentence: int) -> NoReturn:
        """Raise for a sentence that no token continues.

        Args:
            broken: the verifier's output is NaN; else constraints leave no token.
            position: tokens of the output before it.
            sentence: its row in the batch.
        """
        where = f"at position {position} of sentence {sentence} in the batch"
        if not broken:
            raise UsageError(
                "--path",
                f"the verifier left no possible token {where}",
                "does --no-repeat-ngram-size forbid them all, or --unkpen or it the one that "
                "--prefix-size demands?",
            )
        remedy, models = DOUBTFUL, self.parts.verifier.models
        for number, model in enumerate(models, start=1):
            if name := not_finite(model):
                remedy = (
                    f"model {number} of {len(models)} holds NaN or infinity in {name}: the "
                    "checkpoint is damaged, or its training diverged"
                )
                break
        raise UsageError(
            "--path",
            f"the verifier's output is no number {where} (NaN, or infinity before the softmax)",
            remedy,
        )

    def close(self) -> None:
        """Return the caches, and stop the clock."""
        self.session.close()
        self.drafts.close()
        self.stats.total_seconds = time.perf_counter() - self.started


def hypothesis(
    tokens: Tensor,
    positional_scores: Tensor,
    iterations: int,
    options: DecodingOptions,
    trace: SentenceTrace,
) -> dict[str, Any]:
    """What stock ``finalize_hypos`` would return for a sentence, and the iterations. Callers may
    write to its tensors, as the command line does, so they share no storage.

    Args:
        tokens: long [T], the output with its </s>.
        positional_scores: float [T] log-probability of each token.
        iterations: verification passes.
        options: whether the score is divided by length ** ``len_penalty``.
        trace: of the sentence; empty where nothing was recorded.
    """
    with torch.inference_mode(False):
        tokens, positional_scores = tokens.clone(), positional_scores.clone()
        score = positional_scores.sum()
        if options.normalize_scores:
            score = score / tokens.numel() ** options.len_penalty
        return {
            "tokens": tokens,
            "score": score,
            "attention": torch.empty(0),
            "alignment": torch.empty(0),
            "positional_scores": positional_scores,
            "steps": iterations,
            "history": trace.history() if options.keep_history else [],
            "iterations": trace,
        }
