"""The verifier's hidden states that a drafter has not read yet."""

from typing import Any

import torch
from torch import Tensor, nn

from .base import DraftSession

# A verification, (hidden states [B, W, n C], sizes long [B]), or the rows kept after it.
_Event = Tensor | tuple[Tensor, Tensor]


class HiddenStateQueue:
    """Collects the hidden states of verifications until the next draft."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.events: list[_Event] = []

    def add(self, states: Tensor, sizes: Tensor) -> None:
        """Those of a verification: [B, W, n C], of which so many of each row count (long [B])."""
        self.events.append((states, sizes))

    def select(self, rows: Tensor) -> None:
        if self.events:
            self.events.append(rows)

    def take(self) -> tuple[Tensor, Tensor] | None:
        """All that were added and not taken: [B, W, n C], and how many count, long [B]; or None.

        Iterations without a draft leave theirs unread; they are put side by side here.
        """
        unread: list[tuple[Tensor, Tensor]] = []
        rows: Tensor | None = None
        for event in reversed(self.events):
            if isinstance(event, Tensor):
                rows = event if rows is None else event[rows]
            else:
                unread.append(event if rows is None else (event[0][rows], event[1][rows]))
        self.events = []
        if not unread:
            return None
        states, sizes = unread.pop()
        if unread:
            width = sum(more.size(1) for more, _ in unread)
            states = nn.functional.pad(states, (0, 0, 0, width))
        for more, size in reversed(unread):
            columns = sizes.unsqueeze(1) + torch.arange(more.size(1), device=sizes.device)
            states.scatter_(1, columns.unsqueeze(2).expand(more.shape), more)
            sizes = sizes + size
        return states.to(self.dtype), sizes


class BlockSession(DraftSession):
    """A block drafter's cache for one batch, and hidden states that it has not read yet."""

    layers: Any
    states: HiddenStateQueue

    def commit(self, sizes: Tensor, hidden_states: Tensor | None) -> None:
        if hidden_states is not None:
            self.states.add(hidden_states, sizes)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        self.layers.select(rows, rows_cpu)
        self.states.select(rows)

    def close(self) -> None:
        self.layers.close()
