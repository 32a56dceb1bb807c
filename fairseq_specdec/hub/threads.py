"""Decoding in threads: beside an event loop, or while a caller takes what has ended."""

import asyncio
import concurrent.futures
import os
import queue
import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import torch

from fairseq_specdec.io.forks import Lock, renew_in_children
from fairseq_specdec.io.provenance import cores

T = TypeVar("T")


def workers(device: torch.device) -> int:
    """How many batches may be decoded at once: one on a GPU, else as many as threads leave room."""
    if device.type == "cuda":
        return 1
    return max(1, cores() // torch.get_num_threads())


class Threads:
    """Threads that begin with the first work; a forked process begins its own."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = Lock()
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        renew_in_children(self)

    def renew(self) -> None:
        """Leave the parent's threads. Those of OpenMP are missing too, and torch waits for them."""
        self._pool = None
        torch.set_num_threads(1)

    async def run(self, work: Callable[[threading.Event], T]) -> T:
        """What ``work`` returns, called in a thread; its event is set once nobody waits for it."""
        ended = threading.Event()
        with self._lock:
            if self._pool is None:
                name = "specdec-async"
                self._pool = concurrent.futures.ThreadPoolExecutor(self._count, name)
            pool = self._pool
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work, ended)
        finally:
            ended.set()

    def close(self) -> None:
        """Wait for what runs, and end."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


def in_background(
    produce: Callable[[Callable[[T], None], threading.Event], None], name: str
) -> Generator[T, None, None]:
    """Yield what ``produce`` puts, while it runs in a thread. ``produce``: calls the first argument
    with each item; stops early when the second one is set, which closing the generator does. Raises
    RuntimeError: a forked process goes on with a generator of its parent."""
    feed: queue.Queue[Any] = queue.Queue()
    ended = threading.Event()

    def run() -> None:
        try:
            produce(lambda item: feed.put((item, None, False)), ended)
        except BaseException as error:  # raised in the thread that waits
            feed.put((None, error, True))
        else:
            feed.put((None, None, True))

    worker = threading.Thread(target=run, name=name)
    worker.start()
    process = os.getpid()
    try:
        while True:
            if os.getpid() != process:
                raise RuntimeError("a translation goes on only in the process that began it")
            item, error, last = feed.get()
            if error is not None:
                raise error
            if last:
                return
            yield item
    finally:
        ended.set()
        worker.join()
