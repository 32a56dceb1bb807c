"""How to decode, in one validated object."""

from dataclasses import dataclass
from typing import Any

from fairseq_specdec.engine.state import to_device
from fairseq_specdec.errors import UsageError

from .policy import LengthLimits


@dataclass(frozen=True)
class DecodingOptions:
    """Settings of a generator that do not belong to its drafter, rule or policy.

    Attributes:
        beam: hypotheses of a sentence.
        max_len_a, max_len_b: length limit a * S + b, where S is the padded source width (as stock
            computes it), or the sentence's own:
        own_limits: S is the length of each sentence, so that its output does not depend on the
            others of its batch.
        max_positions: most positions that the verifier's decoder has.
        normalize_scores: divide a score by length ** ``len_penalty``.
        len_penalty: ``--lenpen``.
        temperature: divides the verifier's logits, greater than 0.
        keep_trace: record every iteration (``--retain-iter-history``, ``--trace-path``).
        draft_budget: ``--draft-budget``: draft tokens of all rows together that a verification may
            be expected to reject, or prefixes that a pass of a beam search may score though nothing
            waits for them; 0 for any number, None for as many as pay.
        inference: compute in torch's inference mode: no training of the models follows.
        free_unpacked: free the models' weights that the engine has packed.
        verifier_format: ``--verifier-dtype``, one of ``engine.devices.PACKED``.
        plans_once: the output depends on what is drafted, and one plan holds for a batch. Else
            plans follow what was accepted so far, and drafts are whole where the output depends on
            them.
        verifies: as in ``Strategy``.
        hidden: token ids that fairseq's commands do not print; </s> is among them.
    """

    strategy: str
    beam: int = 1
    max_len_a: float = 0
    max_len_b: int = 200
    own_limits: bool = False
    max_positions: int = 1024
    normalize_scores: bool = True
    len_penalty: float = 1.0
    temperature: float = 1.0
    keep_trace: bool = False
    draft_budget: int | None = None
    inference: bool = False
    free_unpacked: bool = False
    hidden: frozenset[int] = frozenset()
    backend: str = "auto"
    verifier_format: str = "fp32"
    cuda_graphs: str = "auto"
    plans_once: bool = False
    verifies: bool = True

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UsageError("--temperature", "must be greater than 0")

    def length_limits(self, net_input: dict[str, Any], min_len: int) -> LengthLimits:
        """Those of a batch, of which fairseq's ``net_input`` is given."""
        if not self.own_limits or self.max_len_a == 0:
            width = net_input["src_tokens"].size(1)
            return LengthLimits.same(self._length_limit(width, min_len))
        lengths = net_input["src_lengths"]
        limits = [self._length_limit(length, min_len) for length in lengths.tolist()]
        if min(limits) == max(limits):
            return LengthLimits.same(limits[0])
        return LengthLimits(min(limits), max(limits), to_device(limits, lengths.device))

    def _length_limit(self, source_width: int, min_len: int) -> int:
        """For a source of this width."""
        limit = min(int(self.max_len_a * source_width + self.max_len_b), self.max_positions - 1)
        if min_len > limit:
            raise UsageError(
                "",
                f"--min-len {min_len} is larger than the length limit {limit} (--max-len-a "
                f"{self.max_len_a} x source width {source_width} + --max-len-b "
                f"{self.max_len_b}, at most the model's {self.max_positions} positions)",
            )
        return limit
