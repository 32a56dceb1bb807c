"""Decoding in threads: beside an event loop, or while a caller takes what has ended."""

import asyncio
import concurrent.futures
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Generator
from typing import TypeVar

import torch

from fairseq_specdec.io.forks import renew_in_children
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
        self._pool = concurrent.futures.ThreadPoolExecutor(count, "specdec-async")
        self._count = count
        renew_in_children(self)

    def renew(self) -> None:
        """Leave the parent's threads. Those of OpenMP are missing too, and torch waits for them."""
        self._pool = concurrent.futures.ThreadPoolExecutor(self._count, "specdec-async")
        torch.set_num_threads(1)

    async def run(self, work: Callable[[threading.Event], T]) -> T:
        """What ``work`` returns, called in a thread; its event is set once nobody waits for it."""
        ended = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, ended)
        finally:
            ended.set()

    def close(self) -> None:
        """Wait for what runs, and end."""
        self._pool.shutdown()


def in_background(items: Generator[T, None, None], name: str) -> Generator[T, None, None]:
    """Yield the items, which a thread takes meanwhile. Closing this generator closes theirs at its
    next item. Raises RuntimeError: a forked process goes on with a generator of its parent."""
    feed: queue.SimpleQueue[tuple[T] | None] = queue.SimpleQueue()  # None ends it
    ended, process = threading.Event(), os.getpid()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with contextlib.closing(items):
                for item in items:
                    feed.put((item,))
                    if ended.is_set():
                        return
        except BaseException as error:  # raised in the thread that waits
            errors.append(error)
        finally:
            feed.put(None)

    worker = threading.Thread(target=run, name=name)
    worker.start()
    try:
        while True:
            if os.getpid() != process:
                raise RuntimeError("a translation goes on only in the process that began it")
            item = feed.get()
            if item is None:
                break
            yield item[0]
        if errors:
            raise errors[0]
    finally:
        ended.set()
        worker.join()
