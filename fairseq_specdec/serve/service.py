"""Texts of requests to translations: limits, the queue, deadlines and clients that leave."""

import asyncio
import concurrent.futures
import functools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator, Translation
from fairseq_specdec.hub.batching import Parts, joined
from fairseq_specdec.hub.sentences import Split

from .batching import smallest_batch
from .bodies import Drafted, shown
from .limits import Limits
from .recent import RecentOutputs
from .scheduler import Row, Rows, Scheduler, late

# Status of a request whose client left, as others count it.
GONE = 499
_NOTHING = Translation("", [], 0.0, 0, [], [], 0)
# Decoded before the first request.
_FIRST = "The quick brown fox jumps over the lazy dog."
Result = TypeVar("Result")


class Service:
    """One pair of languages, its queue and its threads."""

    def __init__(self, translator: SpeculativeTranslator, limits: Limits, workers: int) -> None:
        self.translator = translator
        self.languages = translator.languages
        self.limits = limits
        self.racers: dict[str, dict[str, Any]] = {}  # strategies to race, with their flags
        self.again: Callable[[], Service]  # makes it from the same files, which may have changed
        pace = _pace(translator)  # which also begins to learn how drafts are accepted
        smallest = smallest_batch(translator, limits.max_batch)
        self.scheduler = Scheduler(
            translator.translate_encoded, workers, limits.max_wait, pace, limits.max_batch, smallest
        )
        self._encoders = concurrent.futures.ThreadPoolExecutor(1, "specdec-serve-encode")
        self._recent = RecentOutputs(limits.recent_outputs)  # used in that thread alone

    def close(self) -> None:
        """Answer what was accepted, then end the threads."""
        self.scheduler.stop()
        self._encoders.shutdown()
        self.translator.close()

    def check(self, texts: list[str]) -> None:
        """Refuse the texts of a request if they are too many or one is too long."""
        limits, longest = self.limits, max(map(len, texts), default=0)
        for what, count, most in (
            (f"{len(texts)} texts", len(texts), limits.max_texts),
            (f"a text has {longest} characters", longest, limits.max_characters),
        ):
            if count > most:
                raise HTTPException(400, f"Invalid request: {what}, at most {most} are taken")

    async def translate(
        self, texts: list[str], request: Request, near: Drafted, split: Split | None = None
    ) -> list[Translation]:
        """Translate the texts of one request, whose body was read. Raises HTTPException: the queue
        is full, a text is too long, decoding failed, or the client is not answered in time."""
        until = deadline_of(request, self.limits.max_deadline)
        read = await self._read(texts, until, near, split)
        rows = [row for parts in read for row in parts.rows if row]
        drafts = [d for parts in read for row, d in zip(parts.rows, parts.drafts) if row]
        jobs = self.scheduler.submit(rows, until, drafts=drafts)
        # As a task: a cancelled gather leaves an exception that asyncio logs.
        found = asyncio.wait_for(asyncio.gather(*map(asyncio.wrap_future, jobs)), None)
        try:
            each = await first(found, request, until)
        finally:
            for job in jobs:
                job.cancel()
        for row, one in zip(rows, each):
            self._keep(near, row, one.tokens)
        answers = iter(each)
        return [
            joined(parts, [next(answers) if row else _NOTHING for row in parts.rows])
            for parts in read
        ]

    async def stream(self, text: str, request: Request, near: Drafted) -> AsyncIterator[str]:
        """The pieces of one text's translation. It waits in the queue and is decoded alone, one
        sentence after another. Raises HTTPException: as ``translate``."""
        until = deadline_of(request, self.limits.max_deadline)
        (parts,) = await self._read([text], until, near)
        loop = asyncio.get_running_loop()
        feed: asyncio.Queue[str | None] = asyncio.Queue()
        ended = threading.Event()

        def send(piece: str | None) -> None:
            loop.call_soon_threadsafe(feed.put_nowait, piece)

        def decode(rows: Rows, drafts: Rows) -> Iterator[tuple[int, Any]]:
            for copied, row, draft in zip(parts.copied, [*parts.rows, []], [*parts.drafts, []]):
                send(copied)
                tokens: Row = []
                for iteration, text in self.translator.grow(row, draft) if row else ():
                    tokens += iteration.emitted if iteration else ()
                    send(text)
                    if ended.is_set():
                        return
                self._keep(near, row, self.translator.codec.words(tokens))
            yield 0, None

        (job,) = self.scheduler.submit([sum(parts.rows, [])], until, decode)
        job.add_done_callback(lambda _: send(None))
        try:
            while (piece := await first(feed.get(), request, until)) is not None:
                if piece:
                    yield piece
            job.result()
        finally:
            ended.set()
            job.cancel()

    async def _read(
        self, texts: list[str], until: float, near: Drafted, split: Split | None = None
    ) -> list[Parts]:
        """The sentences of each text, made beside the event loop. Raises HTTPException: the queue
        is full, before that is done; or a text or sentence is too long, or a draft is missing."""
        drafts = near.draft if isinstance(near.draft, list) else [near.draft]
        for each in (texts, [draft for draft in drafts if draft]):
            self.check(each)
        self.scheduler.check(until)

        def read() -> list[Parts]:
            found = self.translator.encode_sentences(texts, split, draft=near.draft)
            near_by = functools.partial(self._recent.nearest, near.context_id)
            rows = [[d or near_by(r) for r, d in zip(each.rows, each.drafts)] for each in found]
            return [each._replace(drafts=some) for each, some in zip(found, rows)]

        try:
            return await asyncio.get_running_loop().run_in_executor(self._encoders, read)
        except UsageError as error:
            most = f"the model reads {self.translator.longest_source} tokens of a sentence"
            problem = error if error.field else f"{most}; split the text"
            raise HTTPException(400, f"Invalid request: {problem}") from None

    def _keep(self, near: Drafted, row: Row, output: Sequence[str]) -> None:
        """Keep the tokens of an output, if the client is named and that is asked for."""
        if near.context_id and self.limits.recent_outputs and row:
            ids = list(map(self.translator.codec.tgt_dict.index, output))
            self._encoders.submit(self._recent.keep, near.context_id, row, ids)


def deadline_of(request: Request, most: float) -> float:
    """``time.monotonic`` when an answer is of no use any more: after ``most`` seconds, or fewer
    that the header ``X-Deadline`` sets. Raises HTTPException: that is no number above 0."""
    given = request.headers.get("x-deadline")
    try:
        seconds = most if given is None else min(float(given), most)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise HTTPException(400, f"X-Deadline {shown(given)}: must be seconds, above 0")
    return time.monotonic() + seconds


async def first(awaitable: Awaitable[Result], request: Request, until: float) -> Result:
    """The result of what is awaited, which is cancelled if that comes too late. ``request``: its
    body was read. ``until``: ``time.monotonic`` at its deadline. Raises HTTPException: that passed,
    or the client closed its connection."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    awaited, left = asyncio.ensure_future(awaitable), asyncio.ensure_future(gone())
    try:
        seconds = max(0.0, until - time.monotonic())
        both = {awaited, left}
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if awaited.done():
            return awaited.result()
        raise HTTPException(GONE, "the client left") if left.done() else late()
    finally:
        left.cancel()
        awaited.cancel()


def _pace(translator: SpeculativeTranslator) -> float:
    """Seconds that a source token takes, measured on a second decoding."""
    row = translator.encode([_FIRST])[0]
    for _ in range(2):
        began = time.perf_counter()
        list(translator.translate_encoded([row]))
        seconds = time.perf_counter() - began
    return seconds / len(row)
