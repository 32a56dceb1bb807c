"""Sentences wait in one queue; threads decode them."""

import concurrent.futures
import contextlib
import itertools
import logging
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .batching import WINDOW, Smallest, choose

logger = logging.getLogger(__name__)

Row = List[int]
Decode = Callable[[List[Row]], Iterator[Tuple[int, Any]]]
"""Decodes a batch, and yields each sentence's number and result when it has ended."""

# Weight of the newest batch in the running mean of seconds a token.
_FORGETS = 0.05
# Sentences are not begun if they are expected to take so many times the seconds that there are.
_HOPELESS = 3.0


class FullError(Exception):
    """The queue is as long as it may be. ``seconds``: expected wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the queue is {seconds:.1f} s long")
        self.seconds = seconds


class StoppedError(Exception):
    """The server ends."""


class LateError(Exception):
    """The deadline passed, or will have passed, before the answer."""


class Job(NamedTuple):
    """One sentence."""

    row: Row  # its token ids
    until: float  # ``time.monotonic`` at its deadline
    decode: Decode  # decodes it, with others of the same function
    future: concurrent.futures.Future  # its result


class Scheduler:
    """A queue bounded by the time that it takes, and the threads that serve it.

    Args:
        decode: what the threads do with sentences that have no function of their own.
        workers: threads.
        most_wait: seconds that a new sentence may be expected to wait.
        pace: seconds a source token takes, until some have been decoded.
        widest: most sentences that are decoded together.
        smallest: sentences of the smallest batch that pays; fewer are decoded one at a time.

    Attributes:
        observe: is given the sentences of each batch.
    """

    def __init__(
        self,
        decode: Decode,
        workers: int,
        most_wait: float,
        pace: float,
        widest: int,
        smallest: Smallest,
    ) -> None:
        self._decode: Decode = decode
        self._most_wait = most_wait
        self._pace = pace
        self._widest = widest
        self._smallest = smallest
        self._waiting: List[Job] = []
        self._idle = 0
        self._tokens = 0  # of what waits or is being decoded
        self._changed = threading.Condition()
        self._stopping = False
        self.observe: Callable[[int], Any] = _nothing
        self._threads = [
            threading.Thread(target=self._work, name=f"specdec-serve-{i}") for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def waiting(self) -> int:
        """Sentences whose decoding has not begun."""
        return len(self._waiting)

    def expected_wait(self) -> float:
        """Seconds until a new sentence's decoding begins."""
        return self._tokens * self._pace / len(self._threads)

    def check(self, until: float) -> None:
        """Refuse new sentences, before any work is done for them."""
        if self._stopping:
            raise StoppedError
        seconds = self.expected_wait()
        if seconds > min(self._most_wait, max(0.0, until - time.monotonic())):
            raise FullError(seconds)

    def submit(
        self, rows: List[Row], until: float, decode: Optional[Decode] = None
    ) -> List[concurrent.futures.Future]:
        """Put sentences into the queue, all or none.

        Args:
            rows: their token ids.
            until: ``time.monotonic`` at their deadline.
            decode: decodes them, and nothing else; None: they share batches with others.

        Returns:
            For each a future of its result. Who cancels it is not decoded for any longer.

        Raises:
            FullError: they would wait for too long, or beyond their deadline.
            StoppedError: ``stop`` was called.
            LateError: they alone would take far longer than until their deadline.
        """
        tokens = sum(map(len, rows))
        left = max(0.0, until - time.monotonic())
        if tokens * self._pace / len(self._threads) > _HOPELESS * left:
            raise LateError
        how = decode or self._decode
        jobs = [Job(row, until, how, concurrent.futures.Future()) for row in rows]
        with self._changed:
            self.check(until)
            self._waiting.extend(jobs)
            self._tokens += tokens
            self._changed.notify(len(jobs))
        return [job.future for job in jobs]

    def stop(self) -> None:
        """Take no more sentences, and return when those in the queue are decoded."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            jobs = self._take()
            if not jobs:
                return
            tokens = _tokens(jobs)
            wanted = [job for job in jobs if _wanted(job)]
            began = time.perf_counter()
            if wanted:
                self.observe(len(wanted))
                self._serve(wanted)
            seconds = time.perf_counter() - began
            with self._changed:
                self._tokens -= tokens
                if wanted:
                    self._pace += _FORGETS * (seconds / _tokens(wanted) - self._pace)

    def _take(self) -> List[Job]:
        """What to decode next; [] when the server ends and nothing is left."""
        with self._changed:
            while not self._waiting:
                if self._stopping:
                    return []
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            decode = self._waiting[0].decode
            most = self._widest * max(WINDOW, 1 + self._idle)  # others are never chosen
            every = (i for i, job in enumerate(self._waiting) if job.decode is decode)
            mates = list(itertools.islice(every, most))
            lengths = [len(self._waiting[i].row) for i in mates]
            chosen = choose(lengths, self._idle, self._widest, self._smallest())
            jobs = [self._waiting[mates[i]] for i in chosen]
            for i in sorted(chosen, reverse=True):
                del self._waiting[mates[i]]
            return jobs

    def _serve(self, jobs: List[Job]) -> None:
        """Decode some jobs together; if that fails, those that are left one at a time."""
        left: Dict[int, Job] = dict(enumerate(jobs))
        try:
            with contextlib.closing(jobs[0].decode([job.row for job in jobs])) as decoding:  # type: ignore[type-var]
                for i, translation in decoding:
                    _answer(left.pop(i), result=translation)
                    if all(job.future.cancelled() for job in left.values()):
                        return
        except Exception as error:  # the thread goes on; the futures get the error
            logger.error("decoding %d sentence(s) failed: %s", len(jobs), type(error).__name__)
            if len(jobs) == 1:
                _answer(jobs[0], error=error)
                return
            for job in left.values():
                self._serve([job])


def _nothing(count: int) -> None:
    """Where nobody observes."""


def _tokens(jobs: List[Job]) -> int:
    return sum(len(job.row) for job in jobs)


def _wanted(job: Job) -> bool:
    """Whether a job is still to be decoded; one that is too late gets an error."""
    if time.monotonic() > job.until:
        _answer(job, error=LateError())
    return not job.future.done()


def _answer(job: Job, result: Any = None, error: Optional[Exception] = None) -> None:
    """Set the result of a job, unless nobody waits for it any more."""
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
