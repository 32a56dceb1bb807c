"""Errors of fairseq's own commands, where they run with this plugin.

Nothing here changes a program that imports the package as a library: ``install`` looks at
the main module, and does nothing unless that is one of fairseq's commands.
"""

from __future__ import annotations

import argparse
import atexit
import difflib
import logging
import os
import re
import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Callable, Iterable, List, NoReturn, Optional, Type

from .hydra_fields import with_fields
from .one_line import one_line, wants_traceback
from .quiet import quieten_hydra

COMMANDS = ("generate", "interactive", "train", "validate", "preprocess", "hydra_train", "score")
# Those that write results to standard output as they go.
DECODING = ("fairseq-generate", "fairseq-interactive")
# Where the others write by default.
DEFAULTS = {
    "fairseq-train": ("--save-dir", "checkpoints"),
    "fairseq-preprocess": ("--destdir", "data-bin"),
}
HYDRA = "fairseq-hydra-train"
TERMINATED = 128 + int(signal.SIGTERM)  # exit status, as of a shell
TASK = "translation_specdec"
Hook = Callable[[Type[BaseException], BaseException, Optional[TracebackType]], Any]


def fairseq_command() -> Optional[str]:
    """The name of the fairseq command that this process is, as ``fairseq-generate``. Returns None
    in any other program."""
    main = sys.modules.get("__main__")
    module = getattr(getattr(main, "__spec__", None), "name", "")
    path = str(getattr(main, "__file__", None) or "")
    folder, file = os.path.split(path)
    name = re.sub(r"(-script)?(\.pyw?|\.exe)?$", "", file)
    if os.path.basename(folder) == "fairseq_cli":
        module = f"fairseq_cli.{name}"
    for command in COMMANDS:
        program = "fairseq-" + command.replace("_", "-")
        if module == f"fairseq_cli.{command}" or name == program:
            return program
    return None


def _label(program: str) -> str:
    """The program, and of data-parallel training which process it is."""
    rank = os.environ.get("RANK")
    several = os.environ.get("WORLD_SIZE", "1") != "1" and rank is not None
    return f"{program} (rank {rank})" if several else program


class HeldConfig(logging.Filter):
    """Keeps the dump of the configuration back until the command has found no mistake."""

    def __init__(self, source: logging.Logger) -> None:
        super().__init__()
        self._source = source
        self._held: List[logging.LogRecord] = []
        self._holds = True
        source.addFilter(self)
        atexit.register(self.release)

    def filter(self, record: logging.LogRecord) -> bool:
        """Hold a record that is a configuration; whatever else is no text comes after models."""
        if self._holds and type(record.msg).__name__ in ("DictConfig", "Namespace"):
            self._held.append(record)
            return False
        if not isinstance(record.msg, str):
            self.release()
        return True

    def release(self) -> None:
        """Log what was held."""
        self._holds = False
        held, self._held = self._held, []
        for record in held:
            self._source.handle(record)

    def drop(self) -> None:
        """Forget it: the command has failed."""
        self._held = []


_HELD: List[HeldConfig] = []


def decoding_begins() -> None:
    """Flags and files are sound; the configuration may be logged."""
    for each in _HELD:
        each.release()


def hook_for(program: str, words: List[str], before: Hook) -> Hook:
    """The ``sys.excepthook`` of a fairseq command."""

    def hook(
        kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]
    ) -> None:
        line = one_line(error.with_traceback(trace), [*DEFAULTS.get(program, ()), *words])
        if isinstance(error, KeyboardInterrupt):
            _stopped(program, "Ctrl-C")
        elif line is None:
            decoding_begins()  # whoever looks into a fault may need the configuration
            before(kind, error, trace)
        else:
            line = with_fields(line, words) if program == HYDRA else line
            sys.stderr.write(f"{_label(program)}: error: {line}\n")
        for each in _HELD:
            each.drop()

    return hook


def _stopped(program: str, how: str) -> None:
    """Print that a signal ends the command; without Python's streams, which it may interrupt."""
    os.write(2, f"\n{_label(program)}: stopped ({how})\n".encode())


def end_orderly_on_sigterm(program: str) -> None:
    """Let SIGTERM end a command that decodes, after whole lines of output, with status 143.

    By default it ends the process at once, and what Python has buffered of its output is lost,
    from the middle of a line on. A second SIGTERM does so. Other processes, such as workers that
    load data, and whoever has a handler of their own keep what they have.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    process = os.getpid()

    def terminate(number: int, frame: Optional[FrameType]) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getpid() != process:
            os.kill(os.getpid(), number)
        for each in _HELD:
            each.drop()
        _stopped(program, "SIGTERM")
        raise _raised_until_it_ends(SystemExit(TERMINATED))

    signal.signal(signal.SIGTERM, terminate)
    # In one call of the system each: a signal that interrupts it leaves the rest in the buffer.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _raised_until_it_ends(end: SystemExit) -> SystemExit:
    """What a signal's handler is to raise. Python drops it where a finalizer was interrupted, and
    goes on: then it is raised anew a little later."""
    shown = sys.unraisablehook

    def later(number: int, frame: Optional[FrameType]) -> NoReturn:
        raise end

    def hook(unraisable: Any) -> None:
        if unraisable.exc_value is not end:
            shown(unraisable)
            return
        signal.signal(signal.SIGALRM, later)
        signal.setitimer(signal.ITIMER_REAL, 0.01)

    sys.unraisablehook = hook
    return end


def install() -> None:
    """In a fairseq command: mistakes end it with one line. Elsewhere nothing happens.

    ``SPECDEC_TRACEBACK=1`` leaves everything as fairseq has it.
    """
    program = fairseq_command()
    if program is None or _HELD or wants_traceback():
        return
    quieten_hydra()
    sys.excepthook = hook_for(program, sys.argv[1:], sys.excepthook)
    logging.raiseExceptions = False  # a log on a full disk: one line, not one a record
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # else hydra prints a traceback of its own
    _HELD.append(HeldConfig(logging.getLogger("fairseq_cli." + program[len("fairseq-") :])))
    if program in DECODING:
        end_orderly_on_sigterm(program)


def refusal(parser: argparse.ArgumentParser, program: str) -> Callable[[str], None]:
    """``parser.error`` with one line, and the remedy where a flag of this plugin is meant."""

    def refuse(message: str) -> None:
        flags = parser._option_string_actions
        parser.exit(2, f"{program}: error: {explained(message, flags)}\n")

    return refuse


def explained(message: str, flags: Iterable[str] = ()) -> str:
    """An error of fairseq's parser, shortened, with the remedy where it is known."""
    from fairseq_specdec.config import SpecDecConfig

    unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
    if unknown:
        flag = unknown.group(1)
        if flag[2:].replace("-", "_") in SpecDecConfig.__dataclass_fields__:
            return f"{flag}: is a flag of --task {TASK}; add that task"
        near = difflib.get_close_matches(flag, list(flags), 1)
        return f"{flag}: no such flag" + (f"; did you mean {near[0]}?" if near else "")
    choice = re.match(r"argument ([^:]+): invalid choice: '?(.*?)'? \(choose from (.*)\)$", message)
    if choice:
        flag, given, known = choice.groups()
        names = [name.strip(" '") for name in known.split(",")]
        near = difflib.get_close_matches(given, names, 3, 0.5)
        listed = ", ".join(near or names[:10]) + (", ..." if len(names) > 10 and not near else "")
        return f"{flag} {given}: unknown; {'did you mean' if near else 'choose from'} {listed}?"
    return message
