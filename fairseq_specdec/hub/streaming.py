"""A translation in pieces, while a thread decodes it."""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Iterator, List, Optional, Union

from .results import Piece
from .text import GrowingText, TextCodec

Put = Callable[[Any, List[str]], None]
"""Takes an iteration and the words so far; None and all words at the end."""


def pieces(
    decode: Callable[[Put, Callable[[], bool]], None], codec: TextCodec, trace_builder: Any
) -> Iterator[Union[str, Piece]]:
    """Run ``decode`` in a thread, and yield the text as it grows.

    Args:
        decode: calls the first argument after every iteration and at the end; stops early when the
            second one says so.
        codec: joins words.
        trace_builder: yield a ``Piece`` for every iteration, traced by it, and one at the end; None
            to yield strings that are not empty.

    Raises:
        BaseException: what ``decode`` raised.
    """
    feed: queue.Queue = queue.Queue()
    ended = threading.Event()
    given = (decode, feed, ended.is_set)
    worker = threading.Thread(target=_run, args=given, name="specdec-stream")
    worker.start()
    growing = GrowingText(codec)
    last = False
    try:
        while not last:
            iteration, words, error = feed.get()
            if error is not None:
                raise error
            last = iteration is None
            text = growing.next(words, last)
            if trace_builder is not None:
                yield Piece(text, None if last else trace_builder.iteration(iteration))
            elif text:
                yield text
    finally:
        ended.set()
        worker.join()


def _run(
    decode: Callable[[Put, Callable[[], bool]], None], feed: queue.Queue, ended: Callable[[], bool]
) -> None:
    """Put (iteration, words, None) for every call, and (None, [], error) for an error."""

    def put(iteration: Optional[Any], words: List[str]) -> None:
        feed.put((iteration, words, None))

    try:
        decode(put, ended)
    except BaseException as error:  # raised in the thread that waits
        feed.put((None, [], error))
