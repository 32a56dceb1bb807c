"""Trace files: JSON lines, one sentence each, whole or absent."""

import contextlib
import os
from collections.abc import Iterable

from filelock import FileLock, Timeout

from fairseq_specdec.io.atomic import check_new_file, naming, sync, write_text

from .record import Trace, TraceError


class TraceFile:
    """A trace that appears under its name when it is complete.

    It is written to ``PATH.partial`` under a lock, which ends with the process, however that ends:
    of two processes that would write one path, the second is refused.

    Raises:
        TraceError: another process writes it, or it cannot be written.
    """

    def __init__(self, path: str) -> None:
        check_new_file(path, "--trace-path")
        self.path = path
        self.temporary = path + ".partial"
        self.traces = 0
        self._process = os.getpid()
        self._lock = FileLock(self.temporary, timeout=0, thread_local=False)
        try:
            self._lock.acquire()
            self._stream = open(self.temporary, "w", encoding="utf-8", newline="\n")
        except Timeout as error:
            raise TraceError(
                f"--trace-path {path}", "another process is writing it", "give each its own"
            ) from error
        except OSError as error:
            raise TraceError(f"--trace-path {path}", f"cannot be written ({error})") from error

    @property
    def open(self) -> bool:
        """Whether it takes traces, in the process that made it (not in one forked from that)."""
        return not self._stream.closed and os.getpid() == self._process

    def add(self, trace: Trace) -> None:
        """Append a sentence."""
        with naming(self.path):
            self._stream.write(trace.to_json() + "\n")
        self.traces += 1

    def publish(self) -> None:
        """Give the file its name. Does nothing the second time."""
        if not self.open:
            return
        with naming(self.path):
            self._stream.flush()
            os.fsync(self._stream.fileno())
        os.replace(self.temporary, self.path)
        self._close()
        sync(os.path.dirname(os.path.abspath(self.path)))

    def discard(self) -> None:
        """Delete the temporary file; a file that was there before stays as it was."""
        if not self.open:
            return
        os.unlink(self.temporary)
        with contextlib.suppress(OSError):  # what cannot be written is not wanted either
            self._stream.flush()
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._lock.release()


def write_traces(path: str, traces: Iterable[Trace]) -> None:
    """Write a trace file whole; an existing one is replaced in one step."""
    check_new_file(path, "path")
    write_text(path, "".join(trace.to_json() + "\n" for trace in traces))


def read_traces(path: str) -> list[Trace]:
    """Read a trace file."""
    traces = []
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        traces.append(Trace.from_json(line))
                    except TraceError as error:
                        raise TraceError(f"{path}, line {number}", error) from error
    except OSError as error:
        raise TraceError(path, error.strerror or error) from error
    except UnicodeDecodeError as error:
        raise TraceError(path, "no trace, for it is no UTF-8 text") from error
    return traces
