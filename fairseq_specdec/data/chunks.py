"""The teacher's output while it is being made: one file a chunk, whole or absent."""

import os
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairseq_specdec.errors import UsageError

from ..io.atomic import replacing
from .plan import Plan, plan_from
from .resumable import ResumableJob


class Hypotheses(NamedTuple):
    """The teacher's outputs for some sentences.

    ``tokens`` holds all sentences end to end, each with its </s>; a sentence of length 0 had no
    hypothesis.
    """

    indices: np.ndarray  # int64 [n]: place in the corpus
    lengths: np.ndarray  # int32 [n]: tokens with </s>
    at_limit: np.ndarray  # bool [n]: as long as the length limit allows
    tokens: np.ndarray  # int32 [sum of lengths]


def pack(
    indices: Sequence[int], tokens: Sequence[Sequence[int]], at_limit: Sequence[bool]
) -> Hypotheses:
    """Concatenate token lists."""
    flat = [token for sentence in tokens for token in sentence]
    return Hypotheses(
        np.array(indices, dtype=np.int64),
        np.array([len(sentence) for sentence in tokens], dtype=np.int32),
        np.array(at_limit, dtype=bool),
        np.array(flat, dtype=np.int32),
    )


class DistilledChunks(ResumableJob):
    """A distillation's chunks, and the plan that they follow."""

    def agree_on(self, plan: Plan) -> None:
        """Save the plan, or check that it is the one saved. Raises ValueError: another process
        cut the corpus otherwise (other library versions)."""
        if not os.path.isfile(self.path("plan.npz")):
            with replacing(self.path("plan.npz"), "wb") as stream:
                np.savez(stream, **plan.arrays())
        mine, theirs = plan.arrays(), self.plan().arrays()
        if not all(np.array_equal(mine[name], theirs[name]) for name in mine):
            raise UsageError(
                "",
                "{}: was cut into other batches than this process does (another version of fairseq "
                "or numpy?); resume with the first run's versions, or choose another --dest".format(
                    self.path("plan.npz")
                ),
            )

    def plan(self) -> Plan:
        if not os.path.isfile(self.path("plan.npz")):
            raise UsageError(self.home, "nothing was distilled yet", "run without --merge")
        return plan_from(self._load("plan.npz"))

    def has(self, chunk: int) -> bool:
        return os.path.isfile(self.path(self._name(chunk)))

    def unfinished(self) -> list[int]:
        return [n for n in range(len(self.plan().chunk_ends)) if not self.has(n)]

    def write(self, chunk: int, hypotheses: Hypotheses, seconds: float) -> None:
        """Save a finished chunk; ``seconds`` is the time spent decoding it."""
        arrays: dict[str, Any] = dict(hypotheses._asdict(), seconds=np.float64(seconds))
        with replacing(self.path(self._name(chunk)), "wb") as stream:
            np.savez(stream, **arrays)

    def read(self, chunk: int) -> tuple[Hypotheses, float]:
        """A chunk's hypotheses and the seconds it took."""
        arrays = self._load(self._name(chunk))
        hypotheses = Hypotheses(*(arrays[name] for name in Hypotheses._fields))
        if int(hypotheses.lengths.sum()) != len(hypotheses.tokens):
            raise UsageError("", self._damaged(self._name(chunk), "lengths do not add up"))
        return hypotheses, float(arrays["seconds"])

    def _name(self, chunk: int) -> str:
        return f"chunk-{chunk:06d}.npz"

    def _load(self, name: str) -> dict[str, np.ndarray]:
        try:
            with np.load(self.path(name), allow_pickle=False) as arrays:
                return dict(arrays)
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise UsageError("", self._damaged(name, str(error))) from error

    def _damaged(self, name: str, why: str) -> str:
        return f"{self.path(name)}: damaged ({why}); delete it and run the same command again"
