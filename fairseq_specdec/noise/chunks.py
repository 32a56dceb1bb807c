"""A clean text cut into chunks of lines, which are noised separately and published together.

A chunk belongs to shard ``chunk % shards``; a line's errors depend on the seed and on its number
alone, so that the corpus does not depend on which process made which part.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ..data.files import DistillError, read_json
from ..data.parts import Parts
from ..io.atomic import own_suffix, sync, write_json, write_text
from ..io.named import naming
from ..io.progress import bar
from ..io.provenance import sha256

REPORT = "noise.json"


def count_lines(path: str) -> int:
    """Lines of a file; only a line feed ends one, and the last may lack it."""
    lines, last = 0, b"\n"
    with naming(path), open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(1 << 20), b""):
            lines += piece.count(b"\n")
            last = piece[-1:]
    return lines + (last != b"\n")


class Chunks(Parts):
    """The directory of unfinished work beside a destination: one text file a chunk.

    Args:
        destination: the ``--dest`` directory, which does not exist until :meth:`publish`.
        digest: of the settings.
        source: the clean text.
        size: lines in a chunk.
        total: lines of the text.
    """

    def __init__(self, destination: str, digest: str, source: str, size: int, total: int) -> None:
        super().__init__(destination, digest)
        self.destination, self.digest, self.source = destination, digest, source
        self.size, self.total = size, total
        self.count = -(-total // size)

    def path(self, chunk: int) -> str:
        """The file of a chunk's faulty lines when it is finished."""
        return os.path.join(self.directory, f"chunk-{chunk:07d}.txt")

    def unfinished(self) -> List[int]:
        """The chunks that are not finished yet."""
        there = set(os.listdir(self.directory)) if os.path.isdir(self.directory) else set()
        return [c for c in range(self.count) if os.path.basename(self.path(c)) not in there]

    def clean_lines(self, wanted: List[int]) -> Iterator[Tuple[int, List[Tuple[int, str]]]]:
        """Each wanted chunk, in increasing order, with its lines and their numbers."""
        want, held = set(wanted), []
        with open(self.source, "rb") as stream:
            # Lines of other chunks are skipped without being decoded.
            lines = ((n, line) for n, line in enumerate(stream) if n // self.size in want)
            for number, line in lines:
                try:
                    held.append((number, line.rstrip(b"\r\n").decode("utf-8")))
                except UnicodeDecodeError as error:
                    raise DistillError(
                        f"{self.source}, line {number + 1}: is not UTF-8; convert it"
                    ) from error
                if (number + 1) % self.size == 0 or number + 1 == self.total:
                    yield number // self.size, held
                    held = []

    def write_lines(self, chunk: int, lines: List[str]) -> None:
        """Save a finished chunk."""
        write_text(self.path(chunk), "".join(line + "\n" for line in lines))

    def publish(
        self, name: str, suffixes: Tuple[str, str], report: Dict[str, Any]
    ) -> Dict[str, Any]:
        """Join all chunks and put the corpus in place; several processes may do so at once.

        Args:
            name: of the files, before their suffixes.
            suffixes: of the faulty and of the clean side.
            report: what to say in ``noise.json`` beside the counts.

        Raises:
            DistillError: a chunk is missing or holds another number of lines.
        """
        building = os.path.join(self.directory, "merged-" + own_suffix())
        try:
            os.makedirs(building)
            written = self._build(building, name, suffixes, report)
            done = completed(self.destination, self.digest)
            if done is None:
                self._put_in_place(building)
            written = done or written
        except (OSError, DistillError):
            # A process that published at the same time may have removed the chunks.
            done = completed(self.destination, self.digest)
            if done is None:
                shutil.rmtree(building, ignore_errors=True)
                raise
            written = done
        self.remove()
        return written

    def _put_in_place(self, building: str) -> None:
        if os.path.isfile(os.path.join(self.destination, REPORT)):
            # Only --overwrite comes here; the old corpus is deleted together with the chunks.
            os.rename(self.destination, os.path.join(self.directory, "replaced-" + own_suffix()))
        os.rename(building, self.destination)
        sync(os.path.dirname(self.destination))

    def _build(
        self, building: str, name: str, suffixes: Tuple[str, str], report: Dict[str, Any]
    ) -> Dict[str, Any]:
        faulty_path, clean_path = (os.path.join(building, f"{name}.{s}") for s in suffixes)
        changed = dropped = 0
        with naming(building), open(faulty_path, "wb") as faulty, open(clean_path, "wb") as clean:
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
        written = dict(
            report,
            digest=self.digest,
            counts={
                "lines": self.total,
                "pairs": self.total - dropped,
                "changed": changed,
                "empty": dropped,
            },
            runs=self.runs(),
            files={os.path.basename(path): sha256(path) for path in (faulty_path, clean_path)},
        )
        write_json(os.path.join(building, REPORT), written)
        return written

    def _read(self, chunk: int, expected: int) -> List[str]:
        try:
            with open(self.path(chunk), encoding="utf-8", newline="\n") as stream:
                lines = [line.rstrip("\n") for line in stream]
        except FileNotFoundError as error:
            raise DistillError(
                f"{len(self.unfinished())} of {self.count} chunks are not finished; run every "
                "shard of the same command again without --merge, finished chunks are skipped"
            ) from error
        if len(lines) != expected:
            raise DistillError(
                f"{self.path(chunk)}: holds {len(lines)} lines, not {expected}; delete it and run "
                "the same command again"
            )
        return lines


def completed(destination: str, digest: str) -> Optional[Dict[str, Any]]:
    """The report of a corpus that these settings already made, or None."""
    path = os.path.join(destination, REPORT)
    if not os.path.isfile(path):
        return None
    report = read_json(path)
    return report if report.get("digest") == digest else None


def noise_chunks(
    chunks: Chunks, todo: List[int], noise: Callable[[str, int], str], said: Callable[[int], Any]
) -> None:
    """Noise and save chunks.

    Args:
        todo: the chunks, in increasing order.
        noise: a line and its number to the faulty line.
        said: called with the number of lines of each chunk that is saved.
    """
    for chunk, lines in chunks.clean_lines(todo):
        chunks.write_lines(chunk, [noise(line, number) for number, line in lines])
        said(len(lines))
