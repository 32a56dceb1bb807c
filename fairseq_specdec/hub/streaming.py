"""A translation in pieces, while a thread decodes it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .results import Piece
from .text import GrowingText, TextCodec
from .threads import in_background

Put = Callable[[Any, list[str]], None]
"""Takes an iteration and the words so far; None and all words at the end."""


def pieces(
    decode: Callable[[Put, Callable[[], bool]], None], codec: TextCodec, trace_builder: Any
) -> Iterator[str | Piece]:
    """Run ``decode`` in a thread, and yield the text as it grows.

    Args:
        decode: calls the first argument after every iteration and at the end; stops early when the
            second one is an error.
        codec: joins words.
        trace_builder: yield a ``Piece`` for every iteration, traced by it, and one at the end; None
            to yield strings that are not empty.
    """

    def produce(put: Callable[[tuple[Any, list[str]]], None], ended: threading.Event) -> None:
        decode(lambda iteration, words: put((iteration, words)), ended.is_set)

    growing = GrowingText(codec)
    with contextlib.closing(in_background(produce, "specdec-stream")) as fed:
        for iteration, words in fed:
            last = iteration is None
            text = growing.next(words, last)
            if trace_builder is not None:
                yield Piece(text, None if last else trace_builder.iteration(iteration))
            elif text:
                yield text
