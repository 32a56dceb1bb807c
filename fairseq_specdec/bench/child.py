"""A Python process of its own that calls functions when asked: one way to start every helper.

CTranslate2, its converter and the systems whose memory is measured run in such processes. In one
process the engines would slow each other: CTranslate2 and torch both use GNU's OpenMP, which stops
spinning between two regions of work once it manages more threads than there are cores.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import weakref
from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io import provenance

# Milliseconds that idle threads of Intel's OpenMP spin; its default is 200, which every turn would
# wait for.
SPIN_MS = "10"

# Seconds that a process may take to end.
END_S = 10

# What a library prints while it is imported must not mix with the answers.
START = (
    "import os; answers = os.dup(1); os.dup2(2, 1)\n"
    "from fairseq_specdec.bench import child; child.serve(answers)"
)


def _end(process: Any, log: Any) -> None:
    """The process ends when there is nothing more to read."""
    try:
        process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    log.close()


def _ending(process: subprocess.Popen[str]) -> str:
    """How a process that closed its pipe ended: its exit status or the signal that killed it."""
    try:
        status = process.wait(timeout=END_S)
    except subprocess.TimeoutExpired:
        return "stopped answering"
    if status >= 0:
        return f"ended with status {status}"
    names = {item.value: item.name for item in signal.Signals}
    hint = ", as for want of memory" if -status == signal.SIGKILL else ""
    return f"was killed by {names.get(-status, f'signal {-status}')}{hint}"


class Child:
    """A process; it ends with ``close()``, or when this object is collected."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        here = [provenance.CHECKOUT, *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            encoding="utf-8",
            env={"KMP_BLOCKTIME": SPIN_MS, **os.environ, "PYTHONPATH": os.pathsep.join(here)},
        )
        self.close = weakref.finalize(self, _end, self.process, self.log)

    def call(self, function: str, **arguments: Any) -> Any:
        """Call ``module:function`` over there; arguments and result are what JSON can hold."""
        assert self.process.stdin is not None and self.process.stdout is not None
        order = {"function": function, "arguments": arguments}
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            logged = self.log.read()[-500:].strip() or "it wrote no message"
            raise UsageError(self.title, f"its process {_ending(self.process)}: {logged}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UsageError(self.title, answer["error"][:500])
        return answer["result"]


def call_once(title: str, function: str, **arguments: Any) -> Any:
    """``Child.call`` in a process that ends with it."""
    child = Child(title)
    try:
        return child.call(function, **arguments)
    finally:
        child.close()


def serve(answers: int) -> None:
    """The far side: read orders from standard input, write answers to this file descriptor."""
    with os.fdopen(answers, "w", encoding="utf-8") as stream:
        for line in sys.stdin:
            order = json.loads(line)
            module, _, name = order["function"].partition(":")
            try:
                function = getattr(importlib.import_module(module), name)
                answer = {"result": function(**order["arguments"])}
            except Exception as error:  # whatever it raises is reported to the caller
                answer = {"error": f"{type(error).__name__}: {error}"}
            stream.write(json.dumps(answer) + "\n")
            stream.flush()
