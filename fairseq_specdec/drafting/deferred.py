"""A drafter's session that begins with its first draft, and costs nothing where there is none."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, Sequence

from torch import Tensor

from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.hypotheses import Hypotheses

from .base import DraftSession, NativeDrafts, ReadyDrafter, Source


class DeferredSession(DraftSession):
    """Opens a session when it is first asked for a draft; until then it keeps what happened.

    Args:
        drafter: opens it.
        source: the batch.
    """

    def __init__(self, drafter: ReadyDrafter, source: Source) -> None:
        self._open = functools.partial(drafter.open, source)
        self._session: Optional[DraftSession] = None
        self._waiting: List[Callable[[DraftSession], Any]] = []

    def opened(self) -> DraftSession:
        """The session, which has seen all that happened."""
        if self._session is None:
            self._session = self._open()
            for event in self._waiting:
                event(self._session)
            self._waiting = []
        return self._session

    def _later(self, event: Callable[[DraftSession], Any]) -> None:
        if self._session is None:
            self._waiting.append(event)
        else:
            event(self._session)

    def ensure_open(self) -> None:
        self.opened()

    def native_form(self) -> Optional[NativeDrafts]:
        return self.opened().native_form()

    def propose(
        self,
        hypotheses: Hypotheses,
        budget: Optional[int] = None,
        costs: Optional[Sequence[float]] = None,
    ) -> Draft:
        if budget == 0 and self._session is None:
            return Draft.empty(hypotheses.lengths)
        if costs is None:  # what judges no drafts knows no costs
            return self.opened().propose(hypotheses, budget)
        return self.opened().propose(hypotheses, budget, costs)

    def commit(self, sizes: Tensor, hidden_states: Optional[Tensor]) -> None:
        if hidden_states is not None or self._session is not None:
            self._later(lambda session: session.commit(sizes, hidden_states))

    def select(self, rows: Tensor, rows_cpu: List[int]) -> None:
        self._later(lambda session: session.select(rows, rows_cpu))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
