"""An error as one line: the flag or file, what is wrong, the remedy."""

import dis
import os
import re
import sys
import traceback
from typing import Optional, Sequence

from ..io.atomic import FULL
from ..io.printable import flat_message, printable

# Set to 1, it brings tracebacks back.
VARIABLE = "SPECDEC_TRACEBACK"

_OURS = __name__.split(".")[0]
_FAIRSEQ = ("fairseq", "fairseq_cli")
# What fairseq raises where a program, not its user, is at fault.
_FAULTS = (TypeError, NotImplementedError)
# Where fairseq's commands write.
_WRITTEN = ("--results-path", "--save-dir", "--destdir")


def wants_traceback() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")


def raiser(error: BaseException) -> Optional[str]:
    """The top package whose ``raise`` or ``assert`` statement raised an error. Returns None where
    no such statement did: the error came out of an expression, as a fault does."""
    trace = error.__traceback__
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame = trace.tb_frame
    if frame.f_code.co_code[trace.tb_lasti] != dis.opmap["RAISE_VARARGS"]:
        return None
    return str(frame.f_globals.get("__package__") or "").split(".")[0]


def one_line(error: BaseException, words: Sequence[str] = ()) -> Optional[str]:
    """The line that names what the user can change. ``words``: the command line; a message that
    begins with the value of a flag is given the flag. Returns None for an error that nobody
    foresaw: a fault, which needs its traceback."""
    package = raiser(error)
    text = printable(flat_message(error))
    # --flag=value as two words.
    words = [part for word in words for part in word.split("=", 1 if word[:2] == "--" else 0)]
    if not text or not isinstance(error, Exception):
        return None
    if package == _OURS and not isinstance(error, AssertionError):
        return with_flag(text, words)
    unread = _unread_input(error, words)
    if unread:
        return unread
    if (package in _FAIRSEQ or isinstance(error, OSError)) and not isinstance(error, _FAULTS):
        return f"{text}{_written(error, words)} ({VARIABLE}=1 shows where)"
    return None


def _unread_input(error: Exception, words: Sequence[str]) -> Optional[str]:
    """Why fairseq-interactive cannot read its sentences (it reads them with ``fileinput``)."""
    if all(
        frame.f_globals.get("__name__") != "fileinput"
        for frame, _ in traceback.walk_tb(error.__traceback__)
    ):
        return None
    named = dict(zip(words, words[1:])).get("--input", "-")
    where = "standard input" if named == "-" else f"--input {printable(named)}"
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return f"{where}: is not UTF-8 text (byte {byte:#04x}); convert it, for example with iconv"
    if isinstance(error, OSError):
        return f"{where}: cannot be read ({error.strerror}); name a file of sentences, one a line"
    if sys.stdin is None and named == "-":
        return f"{where}: is closed; name a file of sentences with --input"
    return None


def _written(error: Exception, words: Sequence[str]) -> str:
    """Where fairseq writes, for an error of writing that has no file's name."""
    if getattr(error, "filename", None) or getattr(error, "errno", None) not in FULL:
        return ""
    given = dict(zip(words, words[1:]))
    named = [f"{flag} {given[flag]}" for flag in _WRITTEN if flag in given]
    where = named[0] if named else "standard output"
    return f": while writing to {where}; free some space, or raise the limit of file sizes"


def with_flag(text: str, words: Sequence[str]) -> str:
    """Put the flag before a message that begins with the flag's value and a colon."""
    for flag, value in zip(words, words[1:]):
        if value.startswith("--"):  # another flag
            continue
        for part in filter(None, re.split(f"[,{re.escape(os.pathsep)}]", value)):
            if flag.startswith("--") and text.startswith(part + ":"):
                return f"{flag} {text}"
    return text
