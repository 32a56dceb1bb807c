"""A drafter's forecasts for beam searches."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_specdec.drafting import DraftSession
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.transfer import read_back, to_device

from .lookahead import Lookahead
from .prefix_tree import Node
from .replay import Sentence


class Forecasts:
    """The drafter's prediction of what follows the best hypothesis of each sentence of a batch.

    The drafter is run once a pass, whatever the beam: after the best hypotheses only. Its cache is
    rolled back to what these share with the best ones of the pass before.

    Args:
        drafts: of the batch; it forecasts.
        start: the start symbol.
        reads: the drafter reads hidden states of the verifier.
        like: a tensor with B rows on the device to use.
    """

    def __init__(self, drafts: DraftSession, start: int, reads: bool, like: Tensor) -> None:
        self.drafts = drafts
        self.start = start
        self.reads = reads
        self.device = like.device
        self._paths: list[list[Node]] = [[] for _ in range(like.size(0))]
        self._states: Tensor | None = None  # [B, T, n C], by slots

    def update(self, live: Sequence[Sentence], lookaheads: Sequence[Lookahead]) -> None:
        """Forecast, and set the forecast of each sentence's look-ahead."""
        paths = [sentence.live[0].path() for sentence in live]
        kept = [_shared(old, new) for old, new in zip(self._paths, paths)]
        steps, count = lookaheads[0].reach.steps, live[0].rules.candidates
        states = self._fresh_states(paths, kept) if self.reads else None
        forecast = self.drafts.forecast(self._hypotheses(paths), kept, states, steps, count)
        if forecast is None:
            return
        self._paths = paths
        log_probs, tokens = read_back(*forecast)
        for row, (path, lookahead) in enumerate(zip(paths, lookaheads)):
            lookahead.set_forecast(len(path), log_probs[row], tokens[row])

    def _hypotheses(self, paths: Sequence[list[Node]]) -> Hypotheses:
        lengths = list(map(len, paths))
        table = np.zeros((len(paths), max(lengths) + 2), dtype=np.int64)
        table[:, 0] = self.start
        for row, path in enumerate(paths):
            table[row, 1 : len(path) + 1] = [node.token for node in path]
        return Hypotheses.of(to_device(torch.from_numpy(table), self.device), lengths)

    def _fresh_states(
        self, paths: Sequence[list[Node]], kept: Sequence[int]
    ) -> tuple[Tensor, Tensor] | None:
        """The hidden states that predicted the tokens that the drafter has not read."""
        if self._states is None:
            return None
        sizes = [len(path) - keep for path, keep in zip(paths, kept)]
        slots = np.zeros((len(paths), max(sizes)), dtype=np.int64)
        for row, (path, keep) in enumerate(zip(paths, kept)):
            slots[row, : sizes[row]] = [node.parent.slot for node in path[keep:]]  # type: ignore
        at = to_device(torch.from_numpy(slots), self.device).unsqueeze(2)
        states = self._states.gather(1, at.expand(-1, -1, self._states.size(2)))
        return states, to_device(sizes, self.device)

    def learn(self, slots: Tensor, upto: int, states: Tensor) -> None:
        """Keep the hidden states of a pass.

        Args:
            slots: long [B, W], of its tokens.
            upto: more than every slot.
            states: [B, W, n C].
        """
        if self._states is None:
            self._states = states.new_zeros(states.size(0), 2 * upto, states.size(2))
        elif self._states.size(1) < upto:
            self._states = nn.functional.pad(self._states, (0, 0, 0, upto))
        self._states.scatter_(1, slots.unsqueeze(2).expand_as(states), states)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        self.drafts.select(rows, rows_cpu)
        self._paths = [self._paths[row] for row in rows_cpu]
        if self._states is not None:
            self._states = self._states.index_select(0, rows)


def _shared(old: Sequence[Node], new: Sequence[Node]) -> int:
    """How many nodes two paths begin with that are the same."""
    size = 0
    while size < min(len(old), len(new)) and old[size] is new[size]:
        size += 1
    return size
