"""A clean text cut into chunks of lines, which are noised separately and published together.

A chunk belongs to shard ``chunk % shards``; a line's errors depend on the seed and on its number
alone, so that the corpus does not depend on which process made which part.
"""

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fairseq_specdec.errors import UsageError

from ..data.work import Work, provenance
from ..io.atomic import sync
from ..io.named import naming
from ..io.progress import bar

logger = logging.getLogger(__name__)
REPORT = "noise.json"


def count_lines(path: str) -> int:
    """Lines of a file; only a line feed ends one, and the last may lack it."""
    lines, last = 0, b"\n"
    with naming(path), open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            lines += piece.count(b"\n")
            last = piece[-1:]
    return lines + (last != b"\n")


class NoisedChunks(Work):
    """The chunks of a text that is being noised: one file of faulty lines each.

    Args:
        destination: the ``--dest`` directory.
        settings: what the errors depend on.
        args: the flags.
        total: lines of the text.
        words: the command line.
    """

    def __init__(
        self,
        destination: str,
        settings: dict[str, Any],
        args: argparse.Namespace,
        total: int,
        words: Sequence[str],
    ) -> None:
        super().__init__(destination, REPORT, settings)
        self.source, self.size, self.total, self.words = args.input, args.chunk_size, total, words
        self.names = [f"{args.name}.{s}" for s in (args.source_suffix, args.target_suffix)]
        self.count = -(-total // self.size)

    def name(self, number: int) -> str:
        """The file of a chunk's faulty lines when it is finished."""
        return f"chunk-{number:07d}.txt"

    def todo(self) -> list[int]:
        """The chunks that are not finished yet."""
        return [chunk for chunk in range(self.count) if not self.has(self.name(chunk))]

    def unfinished(self) -> int:
        return len(self.todo())

    def clean_lines(self, wanted: list[int]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
        """Each wanted chunk, in increasing order, with its lines and their numbers."""
        want, held = set(wanted), []
        with open(self.source, "rb") as stream:
            # Lines of other chunks are skipped without being decoded.
            lines = ((n, line) for n, line in enumerate(stream) if n // self.size in want)
            for number, line in lines:
                try:
                    held.append((number, line.rstrip(b"\r\n").decode("utf-8")))
                except UnicodeDecodeError as error:
                    raise UsageError(
                        f"{self.source}, line {number + 1}", "is not UTF-8", "convert it"
                    ) from error
                if (number + 1) % self.size == 0 or number + 1 == self.total:
                    yield number // self.size, held
                    held = []

    def write_lines(self, chunk: int, lines: list[str]) -> None:
        """Save a finished chunk."""
        with self.saving(self.name(chunk)) as stream:
            stream.write("".join(line + "\n" for line in lines).encode("utf-8"))

    def build(self, folder: str) -> dict[str, Any]:
        """Write the pairs of all chunks; counts lines, pairs, changed pairs and empty lines."""
        faulty_path, clean_path = (os.path.join(folder, name) for name in self.names)
        changed = dropped = 0
        with naming(folder), open(faulty_path, "wb") as faulty, open(clean_path, "wb") as clean:
            everything = self.clean_lines(list(range(self.count)))
            for chunk, lines in bar(everything, "joining", total=self.count, unit="chunk"):
                noised = self._read(chunk, len(lines))
                for (_, line), noisy in zip(lines, noised):
                    tidy = " ".join(line.split())
                    if not tidy:
                        dropped += 1
                        continue
                    changed += noisy != tidy
                    faulty.write(noisy.encode("utf-8") + b"\n")
                    clean.write(tidy.encode("utf-8") + b"\n")
        sync(faulty_path)
        sync(clean_path)
        pairs = self.total - dropped
        counts = {"lines": self.total, "pairs": pairs, "changed": changed, "empty": dropped}
        logger.info("%s: %s", self.destination, counts)
        run = provenance("specdec-noise", self.words, "cpu")
        return {"input": os.path.basename(self.source), "counts": counts, "runs": [run]}

    def _read(self, chunk: int, expected: int) -> list[str]:
        with open(self.path(self.name(chunk)), encoding="utf-8", newline="\n") as stream:
            lines = [line.rstrip("\n") for line in stream]
        if len(lines) != expected:
            raise UsageError(
                self.path(self.name(chunk)),
                f"holds {len(lines)} lines, not {expected}",
                "delete it and run the same command again",
            )
        return lines


def noise_chunks(
    chunks: NoisedChunks,
    todo: list[int],
    noise: Callable[[str, int], str],
    saved: Callable[[int], Any],
) -> None:
    """Noise and save chunks."""
    for chunk, lines in chunks.clean_lines(todo):
        chunks.write_lines(chunk, [noise(line, number) for number, line in lines])
        saved(len(lines))
