"""``specdec-serve --bench``: a server of the same command line, the loads, and a table."""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fairseq_specdec.bench.cli import record
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.io import atomic, provenance

from ..access import VARIABLE
from . import figures, picture
from .figures import FILLING, Load, State
from .load import Bound, Loader
from .served import OURS

# Requests that find the capacity; they warm the server, too.
_FILL = 600
# Seconds that a server may take to end: those of its longest deadline, and then some.
_END = 60


class Texts(NamedTuple):
    """What is asked."""

    sources: list[str]  # texts
    expected: list[str]  # the hub's translations of them, one at a time
    languages: tuple[str, str]  # source and target


def texts_of(file: str, translator: SpeculativeTranslator) -> Texts:
    """The texts of a file, with their translations."""
    with open(file, encoding="utf-8", errors="replace") as stream:
        lines = [line.strip() for line in stream]
    sources = [line for line in lines if line]
    if not sources:
        raise UsageError(f"--bench {file}", "holds no text", "give a file with a text on each line")
    expected = [translator.translate(text).text for text in sources]
    return Texts(sources, expected, translator.languages)


class Measured:
    """A server in a process of its own, and what it is asked."""

    def __init__(self, port: int, texts: Texts, bound: Bound) -> None:
        self._loader = Loader(port, *texts)
        self._url = f"http://127.0.0.1:{port}/metrics"
        self._bound = bound
        self.capacity = 0.0

    def state(self) -> State:
        with urllib.request.urlopen(self._url, timeout=_END) as answer:
            return figures.state_of(answer.read().decode("utf-8"))

    def fill(self) -> dict[str, Any]:
        """Find the capacity."""
        bound = Bound(min(_FILL, self._bound.requests), self._bound.seconds)
        asyncio.run(self._asked(Load("", FILLING, 0), bound))  # and warm
        measured = self.load(Load(str(FILLING), FILLING, 0), bound)
        self.capacity = measured["per_second"]
        return measured

    def load(self, load: Load, bound: Any = None) -> dict[str, Any]:
        """One load's figures."""
        before, began = self.state(), time.perf_counter()
        answers = asyncio.run(self._asked(load, bound or self._bound))
        seconds = time.perf_counter() - began
        name = f"{load.clients} clients" if load.clients else load.name
        return figures.figures(name, answers, seconds, before, self.state())

    async def _asked(self, load: Load, bound: Bound) -> Any:
        try:
            if load.clients:
                return await self._loader.closed(load.clients, bound)
            return await self._loader.open_loop(load.share * self.capacity, bound)
        finally:
            await self._loader.close()


@contextlib.contextmanager
def process(engine: str, words: Sequence[str]) -> Iterator[tuple[Any, int]]:
    """A server of a command line, as (process, port)."""
    command = [sys.executable, "-m", f"{__package__}.served", engine, *words, "--port", "0"]
    path = filter(None, [provenance.CHECKOUT, os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    environment.pop(VARIABLE, None)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        server = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, encoding="utf-8"
        )
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line:
                log.seek(0)
                raise UsageError("the server did not start", log.read()[-500:].strip())
            yield server, int(line.rpartition(":")[2].partition("/")[0])
            server.terminate()
            server.communicate(timeout=_END)
        finally:
            server.kill()
            server.communicate()


def run(args: argparse.Namespace, words: Sequence[str], loads: Sequence[Load], own: Any) -> None:
    """Measure, and print a table. ``own``: a translator of the command line."""
    texts = texts_of(args.bench, own)
    bound = Bound(args.bench_requests, args.bench_seconds)
    title = f"this project, {args.verifier_dtype or args.dtype}"
    servers = {title: OURS}
    rows = []
    sys.stdout.write(figures.head())
    for name, engine in servers.items():
        with process(engine, words) as (_, port):
            measured = Measured(port, texts, bound)
            for number in range(-1, len(loads)):
                row_figures = measured.load(loads[number]) if number >= 0 else measured.fill()
                rows.append({"server": name, **row_figures})
                sys.stdout.write(figures.row(name, row_figures))
                sys.stdout.flush()
    sys.stdout.write(f"\n{figures.LEGEND}\n")
    facts = record(words, [], False, {})
    facts["command"] = provenance.command_line(["specdec-serve", *words])
    if args.bench_json:
        atomic.write_json(args.bench_json, {"provenance": facts, "rows": rows})
    if args.bench_plot:
        picture.draw(args.bench_plot, rows, facts["machine"]["device"])
