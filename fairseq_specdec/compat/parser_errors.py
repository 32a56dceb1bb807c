"""Errors of fairseq's parser, in its commands."""

import argparse
from typing import Any

from ..commands.in_fairseq import TASK, fairseq_command, refusal
from ..commands.one_line import wants_traceback
from .patch import wrap_once


def refuse_flags_in_one_line() -> None:
    """Refuse a command line with one line, which has the remedy where a flag of ours is meant.

    Fault: fairseq prints the usage, hundreds of lines, before the error; ``--help`` does not know
    the flags of a ``--user-dir``. Versions: all. Concerned are fairseq's own commands only.
    """
    from fairseq import options

    wrap_once(options, "parse_args_and_arch", "refuse_flags_in_one_line", _parse)


def _parse(original: Any, parser: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
    program = fairseq_command()
    if program is not None and not wants_traceback():
        parser.epilog = f"The flags of --task {TASK}: specdec-flags"
        parser.error = refusal(parser, program)  # type: ignore[method-assign, assignment]
    return original(parser, *args, **kwargs)
