"""What the batches of greedy decoding and of beam search have in common."""

from __future__ import annotations

import time
from typing import Any, Dict, List

from fairseq_specdec.drafting import Source

from .parts import Parts
from .results import Iteration
from .stats import DecodingStats


class OpenBatch:
    """The sessions of one batch, opened. ``close`` ends them.

    Attributes:
        device: of the source.
        finished: the hypotheses of each sentence, best first; None while it is live.
        traces: iterations of each live sentence so far, if the options ask for them.
        stats: what was done so far.
        max_len: most tokens before </s>.
        session: of the verifier.
        drafts: of the drafter.

    Args:
        parts: what decodes.
        net_input: fairseq's ``sample["net_input"]``.
        widest: the cache is prepared for blocks of so many tokens.
    """

    def __init__(self, parts: Parts, net_input: Dict[str, Any], widest: int) -> None:
        self.parts = parts
        self.started = time.perf_counter()
        self.stats = DecodingStats()
        src_tokens = net_input["src_tokens"]
        self.device = src_tokens.device
        rows, width = src_tokens.shape
        self.max_len = parts.options.length_limit(width, parts.policy.min_len)
        timer = self.stats.stopwatch
        timer.on(self.device)
        with timer("encoder"):
            encoder_outs = parts.verifier.encode(net_input)
        with timer("verifier"):
            self.session = parts.verifier.open(encoder_outs, self.max_len, widest)
        self.drafts = parts.drafter.open(Source(net_input, encoder_outs[0], self.max_len, timer))
        self.traces: List[List[Iteration]] = [[] for _ in range(rows)]
        self.finished: List[Any] = [None] * rows

    def close(self) -> None:
        """Return the caches, and stop the clock."""
        self.session.close()
        self.drafts.close()
        self.stats.total_seconds = time.perf_counter() - self.started
