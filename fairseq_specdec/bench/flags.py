"""Flags that every run of ``specdec-bench`` has, and their checks."""

import argparse
import importlib.util
import os
from typing import Any

from fairseq_specdec.errors import UsageError

from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, add_flag
from .engines import ENGINES
from .instruction_sets import VARIABLES, holds

Flags = dict[str, dict[str, Any]]  # arguments of ``add_flag`` by the flag's name

PEERS: Flags = {
    "--threads": dict(
        text="CPU threads of every system, other engines included", values=AT_LEAST_1, default=1,
    ),
    "--peers": dict(
        nargs="?", const="ctranslate2", metavar="ENGINE[,ENGINE]", otherwise="off",
        text="also measure other engines on the same verifier, each number format in a process of "
        f"its own: {', '.join(ENGINES)}; without a name CTranslate2 (float32 and int8, beam 5 and "
        "1; with --fp16 float16 and int8_float16); needs the extra bench-peers",
    ),
    "--isa": dict(
        text="hold every system to this instruction set, as far as it can be held",
        values=tuple(sorted(VARIABLES)), otherwise="what the processor has",
    ),
    "--no-memory": dict(
        text="do not measure memory, for which each system is loaded in a process of its own",
        default=False,
    ),
}  # fmt: skip
PASSES: Flags = {
    "--repeats": dict(
        text="passes over the sentences; a batch's time is the median of its passes",
        values=AT_LEAST_1, default=1,
    ),
    "--warmup": dict(
        text="batches that every system decodes beforehand, not counted", values=AT_LEAST_0,
        default=3,
    ),
}  # fmt: skip
FILES: Flags = {
    "--json": dict(text="write all figures here", metavar="FILE", otherwise="do not"),
    "--markdown": dict(text="write the tables here", metavar="FILE", otherwise="do not"),
    "--html": dict(
        text="write tables and pictures as one self-contained page; needs the extra plots",
        metavar="FILE", otherwise="do not",
    ),
    "--plots": dict(
        text="write pictures (PNG) here; needs the extra plots", metavar="FOLDER",
        otherwise="do not",
    ),
}  # fmt: skip
PICTURES = ("--plots", "--html")  # what needs matplotlib


def add(group: Any, *tables: Flags) -> None:
    """Add flags to a parser, or a group of one."""
    for flags in tables:
        for name, settings in flags.items():
            add_flag(group, name, **settings)


def check_common(args: argparse.Namespace) -> None:
    """Refuse, before anything is measured, files that cannot be written."""
    if args.isa and not holds(args.isa):
        raise UsageError(
            f"--isa {args.isa}",
            "must be set before torch is loaded",
            "start the command specdec-bench",
        )
    for name in FILES:
        path = getattr(args, name.strip("-"))
        if path:
            _check_writable(name, path)
        if path and name in PICTURES and importlib.util.find_spec("matplotlib") is None:
            raise UsageError(
                name,
                "needs matplotlib",
                "install it with pip install fairseq_specdec[plots], or leave the flag out",
            )


def _check_writable(name: str, path: str) -> None:
    at = os.path.abspath(path)
    if name != "--plots" and os.path.isdir(at):
        raise UsageError(f"{name} {path}", "is a folder", "name a file")
    folder = at if name == "--plots" else os.path.dirname(at)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise UsageError(f"{name} {path}", f"{folder} is no folder that can be written to")
