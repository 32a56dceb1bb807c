"""Sentences wait in one queue; threads decode them."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import logging
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

logger = logging.getLogger(__name__)

Row = List[int]
Decode = Callable[[List[Row]], Iterator[Tuple[int, Any]]]
"""Decodes a batch, and yields each sentence's number and result when it has ended."""

# Weight of the newest batch in the running mean of seconds a token.
_FORGETS = 0.05


class FullError(Exception):
    """The queue is as long as it may be.

    Args:
        seconds: expected wait.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the queue is {seconds:.1f} s long")
        self.seconds = seconds


class StoppedError(Exception):
    """The server ends."""


class LateError(Exception):
    """The deadline passed before decoding began."""


class Job(NamedTuple):
    """One sentence.

    Attributes:
        row: its token ids.
        until: ``time.monotonic`` at its deadline.
        future: its result.
    """

    row: Row
    until: float
    future: concurrent.futures.Future


class Scheduler:
    """A queue bounded by the time that it takes, and the threads that serve it.

    Args:
        decode: what the threads do.
        workers: threads.
        most_wait: seconds that a new sentence may be expected to wait.
        pace: seconds a source token takes, until some have been decoded.
    """

    def __init__(self, decode: Decode, workers: int, most_wait: float, pace: float) -> None:
        self._decode = decode
        self._most_wait = most_wait
        self._pace = pace
        self._waiting: Deque[Job] = collections.deque()
        self._tokens = 0  # of what waits or is being decoded
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"specdec-serve-{i}") for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopping

    def expected_wait(self) -> float:
        """Seconds until a new sentence's decoding begins."""
        return self._tokens * self._pace / len(self._threads)

    def check(self) -> None:
        """Refuse new sentences, before any work is done for them.

        Raises:
            FullError, StoppedError: as ``submit``.
        """
        if self._stopping:
            raise StoppedError
        seconds = self.expected_wait()
        if seconds > self._most_wait:
            raise FullError(seconds)

    def submit(self, rows: List[Row], until: float) -> List[concurrent.futures.Future]:
        """Put sentences into the queue, all or none.

        Args:
            rows: their token ids.
            until: ``time.monotonic`` at their deadline.

        Returns:
            For each a future of its result. Cancelling it takes the sentence out of the queue.

        Raises:
            FullError: they would wait for too long.
            StoppedError: ``stop`` was called.
        """
        jobs = [Job(row, until, concurrent.futures.Future()) for row in rows]
        with self._changed:
            self.check()
            self._waiting.extend(jobs)
            self._tokens += sum(map(len, rows))
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
            if jobs is None:
                return
            tokens = sum(len(job.row) for job in jobs)
            began = time.perf_counter()
            decoded = self._serve([job for job in jobs if _wanted(job)])
            seconds = time.perf_counter() - began
            with self._changed:
                self._tokens -= tokens
                if decoded:
                    self._pace += _FORGETS * (seconds / decoded - self._pace)

    def _take(self) -> Optional[List[Job]]:
        """What to decode next; None when the server ends and nothing is left."""
        with self._changed:
            while not self._waiting:
                if self._stopping:
                    return None
                self._changed.wait()
            return [self._waiting.popleft()]

    def _serve(self, jobs: List[Job]) -> int:
        """Decode some jobs; their source tokens."""
        if not jobs:
            return 0
        left: Dict[int, Job] = dict(enumerate(jobs))
        try:
            with contextlib.closing(self._decode([job.row for job in jobs])) as decoding:  # type: ignore[type-var]
                for i, found in decoding:
                    left.pop(i).future.set_result(found)
        except Exception as error:  # the thread goes on; whoever waits is told
            logger.error("decoding %d sentence(s) failed: %s", len(jobs), type(error).__name__)
            for job in left.values():
                job.future.set_exception(error)
        return sum(len(job.row) for job in jobs)


def _wanted(job: Job) -> bool:
    """Whether a job is still to be decoded; one that is too late is told so."""
    if not job.future.set_running_or_notify_cancel():
        return False
    if time.monotonic() > job.until:
        job.future.set_exception(LateError())
        return False
    return True
