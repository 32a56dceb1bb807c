"""The drafts of a call of the native library that drafts in each of its iterations."""

import ctypes
from typing import Any

import torch

from fairseq_specdec.engine.native.structures import DraftLoop
from fairseq_specdec.engine.state import Draft


class LoopDrafts:
    """The drafts of a call that drafts in each of its iterations.

    Attributes:
        loop: for the library, which counts the drafts made.

    Args:
        loop: without room for the answer.
        cached: slots of each row in the drafter's cache.
        max_iterations: that the call may do.
        kept: what ``loop`` points to.
    """

    def __init__(self, loop: DraftLoop, cached: list[int], max_iterations: int, kept: Any) -> None:
        rows, block = len(cached), loop.block
        self.loop, self.rows, self.kept = loop, rows, kept
        self.cached = (ctypes.c_int64 * rows)(*cached)
        self.tokens = (ctypes.c_int64 * (max_iterations * rows * block))()
        self.sizes = (ctypes.c_int64 * (max_iterations * rows))()
        self.seconds = (ctypes.c_double * max_iterations)()
        for name in ("cached", "tokens", "sizes", "seconds"):
            setattr(loop, name, ctypes.addressof(getattr(self, name)))

    def of(self, iteration: int) -> list[list[int]]:
        """Draft tokens of each row."""
        block, first = self.loop.block, iteration * self.rows
        rows = range(first, first + self.rows)
        return [self.tokens[row * block : row * block + self.sizes[row]] for row in rows]

    def pending_draft(self, done: int) -> Draft | None:
        """The draft that was made after ``done`` iterations and not verified, if there is one."""
        if self.loop.drafts == done:
            return None
        block, first = self.loop.block, done * self.rows
        tokens = torch.tensor(self.tokens[first * block : (first + self.rows) * block])
        return Draft(
            tokens.view(self.rows, block), torch.tensor(self.sizes[first : first + self.rows])
        )
