"""The teacher's output while it is being made: one file a chunk, whole or absent.

There is a directory for each set of decoding settings beside the destination
(``OUT.parts/<digest>``).
Chunks do not depend on the number of shards, so a run may be resumed with another number of
processes.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..io.atomic import own_suffix, replacing, write_json
from .files import DistillError, read_json
from .plan import Plan, plan_from


class Hypotheses(NamedTuple):
    """What the teacher said for some sentences.

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


class Parts:
    """The directory of one run's chunks.

    Args:
        destination: the ``--dest`` directory, which does not exist until the merge.
        digest: of the decoding settings (see ``settings``).
    """

    def __init__(self, destination: str, digest: str) -> None:
        self.home = destination + ".parts"
        self.directory = os.path.join(self.home, digest[:16])

    def others(self) -> List[Dict[str, Any]]:
        """The manifests of unfinished runs for the same destination with other settings."""
        manifests = []
        for name in sorted(os.listdir(self.home)) if os.path.isdir(self.home) else []:
            path = os.path.join(self.home, name, "manifest.json")
            if name != os.path.basename(self.directory) and os.path.isfile(path):
                manifests.append(read_json(path))
        return manifests

    def create(self, manifest: Dict[str, Any]) -> None:
        """Make the directory and its manifest, unless another process already has.

        Raises:
            DistillError: the place is not writable.
        """
        try:
            os.makedirs(self.directory, exist_ok=True)
            if not os.path.isfile(self._path("manifest.json")):
                write_json(self._path("manifest.json"), manifest)
        except OSError as error:
            raise DistillError(
                f"--dest: cannot write {self.directory} ({error.strerror}); choose a "
                "directory you may write beside"
            ) from error

    def note_run(self, rank: int, run: Dict[str, Any]) -> None:
        """Keep the provenance of one process."""
        write_json(self._path(f"run-{rank:05d}-{own_suffix()}.json"), run)

    def runs(self) -> List[Dict[str, Any]]:
        """The provenance of every process that worked here."""
        names = sorted(name for name in os.listdir(self.directory) if name.startswith("run-"))
        return [read_json(self._path(name)) for name in names if name.endswith(".json")]

    def agree_on(self, plan: Plan) -> None:
        """Save the plan, or check that it is the one saved.

        Raises:
            DistillError: another process cut the corpus otherwise (other library versions).
        """
        saved = self.plan()
        if saved is None:
            with replacing(self._path("plan.npz"), "wb") as stream:
                np.savez(stream, **plan.arrays())
            saved = plan
        mine, theirs = plan.arrays(), saved.arrays()
        if not all(np.array_equal(mine[name], theirs[name]) for name in mine):
            raise DistillError(
                "{}: was cut into other batches than this process does (another version of fairseq "
                "or numpy?); resume with the first run's versions, or choose another --dest".format(
                    self._path("plan.npz")
                )
            )

    def plan(self) -> Optional[Plan]:
        """The saved plan, or None."""
        if not os.path.isfile(self._path("plan.npz")):
            return None
        return plan_from(self._load("plan.npz"))

    def has(self, chunk: int) -> bool:
        """Whether a chunk is finished."""
        return os.path.isfile(self._path(self._name(chunk)))

    def missing(self, plan: Plan) -> List[int]:
        """The chunks that are not finished yet."""
        return [chunk for chunk in range(len(plan.chunk_ends)) if not self.has(chunk)]

    def write(self, chunk: int, hypotheses: Hypotheses, seconds: float) -> None:
        """Save a finished chunk; ``seconds`` is the time spent decoding it."""
        arrays: Dict[str, Any] = dict(hypotheses._asdict(), seconds=np.float64(seconds))
        with replacing(self._path(self._name(chunk)), "wb") as stream:
            np.savez(stream, **arrays)

    def read(self, chunk: int) -> Tuple[Hypotheses, float]:
        """A chunk's hypotheses and the seconds it took."""
        arrays = self._load(self._name(chunk))
        hypotheses = Hypotheses(*(arrays[name] for name in Hypotheses._fields))
        if int(hypotheses.lengths.sum()) != len(hypotheses.tokens):
            raise DistillError(self._damaged(self._name(chunk), "lengths do not add up"))
        return hypotheses, float(arrays["seconds"])

    def remove(self) -> None:
        """Delete the parts, and those of runs that --overwrite discards."""
        shutil.rmtree(self.home, ignore_errors=True)

    def _name(self, chunk: int) -> str:
        return f"chunk-{chunk:06d}.npz"

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _load(self, name: str) -> Dict[str, np.ndarray]:
        try:
            with np.load(self._path(name), allow_pickle=False) as arrays:
                return dict(arrays)
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DistillError(self._damaged(name, str(error))) from error

    def _damaged(self, name: str, why: str) -> str:
        return f"{self._path(name)}: damaged ({why}); delete it and run the same command again"
