"""Sentences wait in one queue; threads decode them. What is not decoded gets an HTTP error."""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from .batching import WINDOW, Smallest, choose

logger = logging.getLogger(__name__)

Row = list[int]
Rows = Sequence[Row]
Decode = Callable[[Rows, Rows], Iterator[tuple[int, Any]]]
"""Decodes a batch, given sentences and drafts; yields each one's number and result at its end."""

# Weight of the newest batch in the running mean of seconds per token.
_FORGETS = 0.05
# Sentences are not begun if they are expected to take so many times the seconds that there are.
_HOPELESS = 3.0


def late() -> HTTPException:
    """The refusal of what cannot be answered before its deadline."""
    return HTTPException(504, "no answer before the deadline; send less text")


class Job(NamedTuple):
    """One sentence."""

    row: Row  # its token ids
    until: float  # ``time.monotonic`` at its deadline
    decode: Decode  # decodes it, with others of the same function
    future: concurrent.futures.Future  # its result
    draft: Row  # token ids that the output is expected to be like; [] for none


@dataclasses.dataclass(eq=False)
class Scheduler:
    """A queue bounded by the time that it takes, and the threads that serve it."""

    decode: Decode  # what the threads do with sentences that have no function of their own
    workers: int  # threads
    most_wait: float  # seconds that a new sentence may be expected to wait
    pace: float  # seconds that a source token takes; corrected by each batch
    widest: int  # most sentences that are decoded together
    smallest: Smallest  # sentences of the smallest batch that pays; fewer are decoded one at a time
    observe: Callable[[int], object] = lambda sentences: None  # is given those of each batch
    stopping: bool = False  # whether no more sentences are taken

    def __post_init__(self) -> None:
        self.waiting: list[Job] = []  # sentences whose decoding has not begun
        self._idle = 0
        self._tokens = 0  # of what waits or is being decoded
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, name=f"specdec-serve-{i}")
            for i in range(self.workers)
        ]
        for thread in self._threads:
            thread.start()

    def expected_wait(self) -> float:
        """Seconds until a new sentence's decoding begins."""
        return self._tokens * self.pace / self.workers

    def check(self, until: float) -> None:
        """Refuse new sentences, before any work is done for them. Raises HTTPException: they would
        wait for too long, or beyond their deadline, or ``stop`` was called."""
        if self.stopping:
            raise HTTPException(503, "the server ends")
        seconds = self.expected_wait()
        if seconds > min(self.most_wait, max(0.0, until - time.monotonic())):
            after = str(max(1, math.ceil(seconds - self.most_wait)))
            message = "Slowdown: the queue is full; try again later"
            raise HTTPException(429, message, {"Retry-After": after})

    def submit(
        self, rows: Rows, until: float, decode: Decode | None = None, drafts: Rows = ()
    ) -> list[concurrent.futures.Future]:
        """Put sentences into the queue, all or none, and return a future of each one's result; who
        cancels it is not decoded for any longer. ``until``: ``time.monotonic`` at their deadline.
        ``decode``: decodes them, and nothing else; None: they share batches with others.
        ``drafts``: of each, or none; those with a draft are batched apart. Raises HTTPException: as
        ``check``, or they alone would take far longer."""
        tokens = sum(map(len, rows))
        left = max(0.0, until - time.monotonic())
        if tokens * self.pace / self.workers > _HOPELESS * left:
            raise late()
        how = decode or self.decode
        each = zip(rows, drafts or [[] for _ in rows])
        jobs = [Job(row, until, how, concurrent.futures.Future(), draft) for row, draft in each]
        with self._changed:
            self.check(until)
            self.waiting.extend(jobs)
            self._tokens += tokens
            self._changed.notify(len(jobs))
        return [job.future for job in jobs]

    def stop(self) -> None:
        """Take no more sentences, and return when those in the queue are decoded."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            jobs = self._take()
            if not jobs:
                return
            wanted = [job for job in jobs if _wanted(job)]
            began = time.perf_counter()
            if wanted:
                self.observe(len(wanted))
                self._serve(wanted)
            seconds = time.perf_counter() - began
            with self._changed:
                self._tokens -= sum(len(job.row) for job in jobs)
                if wanted:
                    tokens = max(1, sum(len(job.row) for job in wanted))
                    self.pace += _FORGETS * (seconds / tokens - self.pace)

    def _take(self) -> list[Job]:
        """What to decode next; [] when the server ends and nothing is left."""
        with self._changed:
            while not self.waiting:
                if self.stopping:
                    return []
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            first = self.waiting[0]
            most = self.widest * max(WINDOW, 1 + self._idle)  # others are never chosen
            key = first.decode, bool(first.draft)
            every = (
                i for i, job in enumerate(self.waiting) if (job.decode, bool(job.draft)) == key
            )
            mates = list(itertools.islice(every, most))
            lengths = [len(self.waiting[i].row) for i in mates]
            chosen = choose(lengths, self._idle, self.widest, self.smallest())
            jobs = [self.waiting[mates[i]] for i in chosen]
            for i in sorted(chosen, reverse=True):
                del self.waiting[mates[i]]
            return jobs

    def _serve(self, jobs: list[Job]) -> None:
        """Decode some jobs together; if that fails, those that are left one at a time."""
        left: dict[int, Job] = dict(enumerate(jobs))
        try:
            batch = [job.row for job in jobs], [job.draft for job in jobs]
            with contextlib.closing(jobs[0].decode(*batch)) as decoding:  # type: ignore[type-var]
                for i, translation in decoding:
                    _answer(left.pop(i), result=translation)
                    if all(job.future.cancelled() for job in left.values()):
                        return
        except Exception as error:  # the thread continues; neither log nor answer has the text
            name = type(error).__name__
            logger.error("decoding %d sentence(s) failed: %s", len(jobs), name)
            if len(jobs) == 1:
                message = f"decoding failed ({name}); the server's log says more"
                _answer(jobs[0], error=HTTPException(500, message))
                return
            for job in left.values():
                self._serve([job])


def _wanted(job: Job) -> bool:
    """Whether a job is still to be decoded; one that is too late gets an error."""
    if time.monotonic() > job.until:
        _answer(job, error=late())
    return not job.future.done()


def _answer(job: Job, result: Any = None, error: Exception | None = None) -> None:
    """Set the result of a job, unless nobody waits for it any more."""
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
