"""Lines of text in, lines of text out, a block at a time: memory does not grow with the input."""

import collections
import concurrent.futures
import contextlib
import functools
import io
import itertools
import json
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from tqdm import tqdm

from fairseq_specdec.errors import UsageError

from .translator import SpeculativeTranslator

logger = logging.getLogger(__name__)
Block = tuple[list[str], list[str] | None]
"""Texts that are batched together, and what their outputs are expected to be like."""


class Line(NamedTuple):
    """The translation of a line. ``alternatives``: texts; ``accepted``: draft tokens."""

    source: str
    text: str
    score: float
    alternatives: list[str]
    iterations: int
    accepted: int
    error: str | None


@contextlib.contextmanager
def lines_of(files: Sequence[str]) -> Iterator[Iterable[str]]:
    """The lines of all files, or of standard input. Raises UsageError: one is no text in UTF-8."""
    paths: list[str | int] = [*files] or [os.dup(sys.stdin.fileno())]
    with contextlib.ExitStack() as opened:
        streams = [
            opened.enter_context(open(path, encoding="utf-8", newline="\n")) for path in paths
        ]
        yield itertools.chain.from_iterable(map(_decoded, streams))


def _decoded(stream: IO[str]) -> Iterator[str]:
    try:
        yield from stream
    except UnicodeDecodeError as error:
        name = "standard input" if isinstance(stream.name, int) else stream.name
        what = f"is not UTF-8 text (byte {error.object[error.start]:#04x})"
        raise UsageError(name, what, "convert it with iconv") from error


def blocks_of(
    lines: Iterable[str], drafts: Iterable[str] | None, size: int, done: int
) -> Iterator[Block]:
    """Blocks of so many lines, without the first ``done``. Raises UsageError: there are fewer
    drafts."""
    texts, expected = iter(lines), iter(drafts or ())
    for stream in (texts, expected):
        collections.deque(itertools.islice(stream, done), maxlen=0)
    while block := [line.rstrip("\r\n") for line in itertools.islice(texts, size)]:
        beside = [line.strip() for line in itertools.islice(expected, len(block))]
        if drafts is not None and len(beside) != len(block):
            raise UsageError("--drafts", "has fewer lines than the input", "give one for each")
        yield block, None if drafts is None else beside


_kept: list[SpeculativeTranslator] = []  # of a forked process: the one that it began with


def _keep(translator: SpeculativeTranslator) -> None:
    _kept.append(translator)


def _translated(block: Block, translator: SpeculativeTranslator | None = None) -> list[Line]:
    texts, drafts = block
    found = (translator or _kept[0]).translate(texts, on_error="skip", draft=drafts)
    return [
        Line(text, one.text.replace("\n", " "), one.score, list(map(str, one.alternatives)),
             one.iterations, sum(one.accepted), one.error)
        for text, one in zip(texts, found)
    ]  # fmt: skip


@contextlib.contextmanager
def translating(
    translator: SpeculativeTranslator, workers: int
) -> Iterator[Callable[[Iterable[Block]], Iterator[list[Line]]]]:
    """Translates blocks in order, in so many processes, which share the model's memory. Raises
    UsageError: they cannot share a GPU's."""
    if workers == 1:
        yield lambda blocks: (_translated(block, translator) for block in blocks)
        return
    if translator.device.type != "cpu":
        raise UsageError("--workers", f"processes do not share {translator.device}", "use one")
    translator.generator.parts()  # weights that are packed before the fork lie in memory once
    fork, keep = multiprocessing.get_context("fork"), functools.partial(_keep, translator)
    with concurrent.futures.ProcessPoolExecutor(workers, fork, keep) as pool:

        def in_order(blocks: Iterable[Block]) -> Iterator[list[Line]]:
            waiting: collections.deque[concurrent.futures.Future] = collections.deque()
            for block in blocks:
                waiting.append(pool.submit(_translated, block))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            for each in waiting:
                yield each.result()

        try:
            yield in_order
        finally:
            pool.shutdown(cancel_futures=True)


def write(blocks: Iterable[list[Line]], out: IO[str], done: int, as_json: bool) -> int:
    """Write the translation of each line, the first ``done`` being there. Returns how many are
    empty, since the verifier cannot read their text; each is logged."""
    skipped, numbers = 0, itertools.count(done + 1)
    with tqdm(initial=done, unit=" lines", disable=None, file=sys.stderr) as progress:
        for block in blocks:
            for line, number in zip(block, numbers):
                if line.error is not None:
                    skipped += 1
                    logger.warning("line %d: left empty: %s", number, line.error)
                text = json.dumps(line._asdict(), ensure_ascii=False) if as_json else line.text
                out.write(text + "\n")
            out.flush()
            progress.update(len(block))
    return skipped


@contextlib.contextmanager
def kept(path: str) -> Iterator[tuple[IO[str], int]]:
    """The file under the name ``path.partial``, which it keeps until all is written, and how many
    lines it has already."""
    partial = f"{path}.partial"
    with open(partial, "a+b") as stream:
        stream.seek(0)
        done = end = 0
        for line in stream:
            if line.endswith(b"\n"):
                done, end = done + 1, end + len(line)
        stream.truncate(end)  # half a line
        with io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as text:
            yield text, done
            text.flush()
            os.fsync(text.fileno())
    os.replace(partial, path)
