"""Progress on stderr: one line that changes on a terminal, milestones only elsewhere."""

import logging
import sys
from typing import IO, Optional


def log_to_stderr() -> None:
    """Send log records of level INFO and above to stderr."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


class Progress:
    """A line on a terminal that each `update` overwrites; silent if `stream` is no terminal."""

    def __init__(self, stream: Optional[IO[str]] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty()

    def update(self, text: str) -> None:
        """Show `text` in place of what was shown before."""
        if self._shown:
            self._stream.write("\r\x1b[K" + text[:100])
            self._stream.flush()

    def close(self) -> None:
        """Erase the line."""
        self.update("")
