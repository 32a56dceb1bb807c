"""Decoding in threads: beside an event loop, or while a caller takes what has ended."""

import concurrent.futures
import contextlib
import functools
import queue
import threading
from collections.abc import Generator
from typing import TypeVar

import torch

from fairseq_specdec.io.forks import RENEWED
from fairseq_specdec.io.provenance import cores

T = TypeVar("T")


class Threads:
    """Threads that begin with the first work: one on a GPU, else as many as there is room for; a
    forked process begins its own."""

    def __init__(self, device: torch.device) -> None:
        count = 1 if device.type == "cuda" else max(1, cores() // torch.get_num_threads())
        self._begin = functools.partial(
            concurrent.futures.ThreadPoolExecutor, count, "specdec-async"
        )
        self.pool = self._begin()
        RENEWED.add(self)

    def renew(self) -> None:
        """Leave the parent's threads. Those of OpenMP are missing too, and torch waits for them."""
        self.pool = self._begin()
        torch.set_num_threads(1)


def in_background(items: Generator[T, None, None], name: str) -> Generator[T, None, None]:
    """Yield the items, which a thread takes meanwhile. Closing this generator closes theirs at its
    next item."""
    feed: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()  # None ends it
    ended = threading.Event()

    def run() -> None:
        end = None
        try:
            with contextlib.closing(items):
                for item in items:
                    feed.put((item,))
                    if ended.is_set():
                        return
        except BaseException as error:  # raised in the thread that waits
            end = error
        finally:
            feed.put(end)

    worker = threading.Thread(target=run, name=name)
    worker.start()
    try:
        while isinstance(item := feed.get(), tuple):
            yield item[0]
        if item is not None:
            raise item
    finally:
        ended.set()
        worker.join()
