"""How far long work is, on stderr: a bar on a terminal; elsewhere nothing, or log lines.

stdout is never written to, so that a command's output can be piped while its bar is shown.
"""

from __future__ import annotations

import functools
import logging
import math
import sys
import time
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

# Where there is no terminal: seconds before a counter's first line, and between further ones.
FIRST_LOG = 5.0
LOG_EVERY = 60.0


def bar(
    items: Iterable[Any] | None = None, title: str | None = None, unit: str = "it", **more: Any
) -> Any:
    """A bar that is shown only where stderr is a terminal; iterate over it, or ``update`` it.

    Args:
        items: what to iterate over; None to call ``update``.
        unit: what is counted; ``"B"`` for bytes, shown in multiples of 1024.
        more: of tqdm: ``total``; ``initial``, how much is done already; ``leave``, whether it stays
            on the screen when it is closed.
    """
    if unit == "B":
        more.update(unit_scale=True, unit_divisor=1024)
    # disable: where the file is no terminal
    more.update(file=sys.stderr, disable=None, dynamic_ncols=True)
    return tqdm(items, desc=title, unit=unit if unit == "B" else " " + unit, **more)


# ``bar`` that leaves nothing on the screen: for steps of a longer run that are logged.
erased_bar = functools.partial(bar, leave=False)


class Counter:
    """Counts what is done: a bar on a terminal; else a log line after 5 seconds, then one a
    minute."""

    def __init__(self, total: int, unit: str, logger: logging.Logger, title: str = "") -> None:
        self._bar = bar(title=title or None, total=total, unit=unit)
        self._logger, self._planned, self._done = logger, total, 0
        units = unit + ("es" if unit.endswith("ch") else "s")
        self._said = f"{title + ': ' if title else ''}%d of {total} {units}"
        self._began = time.monotonic()
        self._due = self._began + FIRST_LOG

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def add(self, count: int) -> None:
        """``count`` more are done."""
        self._bar.update(count)
        self._done += count
        now = time.monotonic()
        if self._bar.disable and now > self._due:
            self._due = now + LOG_EVERY
            rate = self._done / (now - self._began)
            minutes = math.ceil((self._planned - self._done) / rate / 60)
            words = f"{self._said}, %.1f per second, about %d min left"
            self._logger.info(words, self._done, rate, minutes)
