"""How to decode, in one object."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DecodingOptions:
    """Settings of a generator that do not belong to its drafter, rule or policy."""

    strategy: str
    beam: int = 1  # hypotheses of a sentence
    normalize_scores: bool = True  # divide a score by length ** ``len_penalty``
    len_penalty: float = 1.0  # ``--lenpen``
    temperature: float = 1.0  # divides the verifier's logits, greater than 0
    keep_trace: bool = False  # record every iteration
    keep_history: bool = False  # give what ``--retain-iter-history`` prints; there must be a trace
    # ``--draft-budget``: draft tokens of all rows together that a verification may be expected to
    # reject; 0 for any number, None for as many as pay
    draft_budget: int | None = None
    # The output depends on what is drafted, and one plan holds for a batch. Else plans follow what
    # was accepted so far, and drafts are whole where the output depends on them.
    plans_once: bool = False
    verifies: bool = True  # as in ``Strategy``
    inference: bool = False  # compute in torch's inference mode: no training of the models follows
    free_unpacked: bool = False  # free the models' weights that the engine has packed
    # token ids that fairseq's commands do not print; </s> is among them
    hidden: frozenset[int] = frozenset()
    backend: str = "auto"
    verifier_format: str = "fp32"  # ``--verifier-dtype``, one of ``engine.devices.PACKED``
    cuda_graphs: str = "auto"
