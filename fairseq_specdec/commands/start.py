"""The console scripts: ``--help`` and ``--version`` answer at once, without torch and fairseq.

The texts in ``help`` are those of the commands' own parsers; tests/commands/test_start.py compares
them and writes them anew.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Callable, Dict, Iterator, List, Optional, Sequence

from ..version import __version__
from .own import reporting
from .quiet import quieten_hydra

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "help")
# Program and module that holds its cli_main.
MODULES: Dict[str, str] = {
    "specdec-accelerate": "accelerate.cli",
    "specdec-bench": "bench.cli",
    "specdec-convert": "conversion.cli",
    "specdec-costs": "costs.cli",
    "specdec-demo": "demo.cli",
    "specdec-distill": "data.distill",
    "specdec-edits": "data.edits",
    "specdec-env": "environment.cli",
    "specdec-flags": "decoding.listed_flags",
    "specdec-serve": "serve.cli",
    "specdec-shortlist": "data.shortlist",
    "specdec-trace": "trace.cli",
}
SUBCOMMANDS = ("specdec-convert", "specdec-trace")


def _answer(program: str, words: Sequence[str]) -> Optional[str]:
    """What --help or --version print; None where neither is asked for."""
    asked = words[:1] if program in SUBCOMMANDS else words
    if "--version" in asked:
        return f"{program} {__version__}\n"
    if "--help" in asked or "-h" in asked:
        with open(os.path.join(FOLDER, f"{program}.txt"), encoding="utf-8") as stream:
            return stream.read()
    return None


def start(program: str, words: Sequence[str]) -> None:
    text = _answer(program, words)
    if text is not None:
        sys.stdout.write(text)
        return
    quieten_hydra()
    package = __name__.split(".")[0]
    with reporting(program, words), _interruptible():  # torch and fairseq take seconds
        module = importlib.import_module(f"{package}.{MODULES[program]}")
    module.cli_main()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C stays one where the import of a half-loaded library raises another error."""
    asked: List[int] = []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: Optional[FrameType]) -> None:
        asked.append(number)
        raise KeyboardInterrupt

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if asked:
            raise KeyboardInterrupt from error
        raise
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


def _script(program: str) -> Callable[[], None]:
    def run() -> None:
        start(program, sys.argv[1:])

    return run


accelerate = _script("specdec-accelerate")
bench = _script("specdec-bench")
convert = _script("specdec-convert")
costs = _script("specdec-costs")
demo = _script("specdec-demo")
distill = _script("specdec-distill")
edits = _script("specdec-edits")
env = _script("specdec-env")
flags = _script("specdec-flags")
serve = _script("specdec-serve")
shortlist = _script("specdec-shortlist")
trace = _script("specdec-trace")
