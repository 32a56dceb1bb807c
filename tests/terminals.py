"""A terminal for tests: what a command shows there, and that it is quiet elsewhere."""

import contextlib
import fcntl
import logging
import os
import struct
import sys
import termios
import threading
from unittest import mock


class Terminal:
    """A pseudo-terminal of 100 columns; ``stream`` writes to it, ``text`` is what arrived."""

    def __init__(self):
        self._reader, writer = os.openpty()
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.stream = open(writer, "w", encoding="utf-8")
        self.text = ""
        self._pieces = []
        # Read all the while: a full terminal would stop the writer.
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self):
        with contextlib.suppress(OSError):  # the last writer has gone
            while True:
                self._pieces.append(os.read(self._reader, 65536))

    def close(self):
        self.stream.close()
        self._thread.join(60)
        os.close(self._reader)
        self.text = b"".join(self._pieces).decode("utf-8")


@contextlib.contextmanager
def own_logging():
    """A context in which the root logger has the handlers and level that a command sets."""
    root = logging.getLogger()
    level = root.level
    with mock.patch.object(root, "handlers", []):
        try:
            yield
        finally:
            root.setLevel(level)


@contextlib.contextmanager
def terminal_on_stderr():
    """``sys.stderr`` is a terminal meanwhile; its text is there afterwards."""
    terminal = Terminal()
    try:
        with mock.patch.object(sys, "stderr", terminal.stream):
            with own_logging():
                yield terminal
    finally:
        terminal.close()
