"""The generator that all strategies share: what fairseq asks for hypotheses."""

from __future__ import annotations

import time
from typing import AbstractSet, Any, ContextManager, Dict, List, Optional

import torch
from torch import Tensor, nn

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.drafters import Drafter
from fairseq_specdec.verifier.verifier import Verifier

from .batch import Batch
from .draft_budget import DraftBudget
from .logits_policy import LogitsPolicy
from .stats import DecodingStats


class SpeculativeGenerator(nn.Module):
    """Decodes like stock ``SequenceGenerator`` with beam 1, in fewer verifier passes.

    Args:
        verifier: scores blocks.
        drafter: proposes them.
        rule: accepts draft tokens.
        policy: decoding constraints.
        max_len_a, max_len_b: length limit a * S + b, where S is the padded source width (as
            stock computes it).
        max_positions: most positions that the verifier's decoder has.
        normalize_scores, len_penalty: as stock.
        keep_trace: record every iteration (``--retain-iter-history``, ``--trace-path``).
        strategy: name for the log.
        stats: counters to add to.
        spare_rows: draft tokens of all rows that a verification may be expected to read in vain;
            None for no limit.
        gives_up: draft seldom where drafts keep failing. Both are heeded only where it changes
            nothing but the time.
        inference: nobody will train the models: compute in torch's inference mode.
        hidden: token ids that fairseq's commands do not print, beside the policy's </s>.
    """

    def __init__(
        self,
        verifier: Verifier,
        drafter: Drafter,
        rule: AcceptanceRule,
        policy: LogitsPolicy,
        max_len_a: float,
        max_len_b: int,
        max_positions: int,
        normalize_scores: bool,
        len_penalty: float,
        keep_trace: bool,
        strategy: str,
        stats: DecodingStats,
        spare_rows: Optional[int] = None,
        gives_up: bool = False,
        inference: bool = False,
        hidden: AbstractSet[int] = frozenset(),
    ) -> None:
        super().__init__()
        self.verifier = verifier
        self.drafter = drafter
        self.rule = rule
        self.policy = policy
        self.max_len_a = max_len_a
        self.max_len_b = max_len_b
        self.max_positions = max_positions
        self.normalize_scores = normalize_scores
        self.len_penalty = len_penalty
        self.keep_trace = keep_trace
        self.strategy = strategy
        self.stats = stats
        self.spare_rows = spare_rows
        self.gives_up = gives_up
        self.inference = inference
        self.recorder: Any = None  # the task's, for --trace-path
        # fairseq's command lines ask the generator which symbols to hide.
        self.symbols_to_strip_from_output = {policy.eos, *hidden}

    def refresh(self) -> None:
        """The models' weights changed: read them again at the next batch."""
        self.verifier.refresh()
        self.drafter.refresh()

    def without_gradients(self) -> ContextManager[Any]:
        """The mode to compute in: without bookkeeping for autograd where none will follow."""
        return torch.inference_mode() if self.inference else torch.no_grad()

    def draft_budget(self) -> DraftBudget:
        """How much to draft, for one batch."""
        if self.rule.any_draft and self.drafter.adaptive:
            return DraftBudget(self.spare_rows, self.gives_up)
        return DraftBudget(None, False)

    def length_limit(self, source_width: int) -> int:
        """Most tokens before </s> for a batch of this padded source width.

        Raises:
            ValueError: ``--min-len`` exceeds it.
        """
        limit = min(int(self.max_len_a * source_width + self.max_len_b), self.max_positions - 1)
        if self.policy.min_len > limit:
            raise ValueError(
                f"--min-len {self.policy.min_len} is larger than the length limit {limit} "
                f"(--max-len-a {self.max_len_a} x source width {source_width} + --max-len-b "
                f"{self.max_len_b}, at most the model's {self.max_positions} positions)"
            )
        return limit

    @torch.no_grad()
    def generate(
        self,
        models: List[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
        **unused: Any,
    ) -> List[List[Dict[str, Any]]]:
        """Decode a batch.

        Args:
            models: the ensemble; the same models that the generator was built for.
            sample: fairseq batch with ``net_input``.
            prefix_tokens: long [B, P] forced first tokens, padded on the right.
            constraints: refused.
            bos_token: first decoder input instead of </s>.

        Returns:
            For each sentence a list of one hypothesis.

        Raises:
            ValueError: constraints given, or the length limits contradict each other.
        """
        if constraints is not None:
            raise ValueError("--constraints: not supported by --task translation_specdec")
        started = time.perf_counter()
        batch = self.begin(models, sample, prefix_tokens, bos_token)
        while batch.host_lengths:
            batch.iterate()
        self.stats.sentences += len(batch.finished)
        self.stats.total_seconds += time.perf_counter() - started
        return [[hypo] for hypo in batch.finished]

    def begin(
        self,
        models: List[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> Batch:
        """A batch to iterate by hand (arguments as for ``generate``)."""
        if len(models) != len(self.verifier.models) or any(
            a is not b for a, b in zip(models, self.verifier.models)
        ):
            self.verifier.models = list(models)
            self.refresh()
        with self.without_gradients():
            return Batch(self, sample["net_input"], prefix_tokens, bos_token)

    forward = generate
