"""The flags of ``specdec-serve --bench``."""

import argparse
import functools
import importlib.util
import os

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import SECONDS, Range, add_flag

from .figures import Load, loads_of
from .picture import ENDINGS

# Where a server listens is not to be chosen: on this machine only.
_FIXED = ("host", "port", "token_file")


def add_bench_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "measuring", "A server of this command line is started on 127.0.0.1, asked, and ended."
    )
    add = functools.partial(add_flag, group)
    add("--bench", "measure with the texts of this file, one a line, and serve nobody else",
        metavar="FILE", otherwise="serve")  # fmt: skip
    add("--bench-loads", "clients that each wait for their answers, and shares of the capacity "
        "that come at random times", default="1,8,80%,200%", metavar="LOADS")  # fmt: skip
    add("--bench-requests", "most requests of a load", Range(1, 1_000_000, whole=True), 1000)
    add("--bench-seconds", "seconds in which a load is sent", SECONDS, 60.0)
    add("--bench-json", "write all figures here", metavar="FILE", otherwise="do not")
    add("--bench-plot", "draw the times of answers against answers a second, of loads that are "
        "shares of the capacity, as .svg or .png; needs the extra plots", metavar="FILE",
        otherwise="do not")  # fmt: skip


def checked(args: argparse.Namespace, parser: argparse.ArgumentParser) -> list[Load]:
    """The loads, before any model is loaded."""
    if args.config is not None:
        raise UsageError("--config", "--bench measures one pair", "give its flags instead")
    for name in _FIXED:
        if getattr(args, name) != parser.get_default(name):
            flag = "--" + name.replace("_", "-")
            raise UsageError(flag, "--bench asks 127.0.0.1 at a free port", "leave it out")
    loads = loads_of(args.bench_loads)
    if args.bench_plot is not None:
        _check_plot(args.bench_plot, loads)
    return loads


def _check_plot(path: str, loads: list[Load]) -> None:
    if not path.endswith(ENDINGS):
        raise UsageError(f"--bench-plot {path}", "expected a name that ends in .svg or .png")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise UsageError(f"--bench-plot {path}", "its folder does not exist", "make it first")
    if not any(load.share for load in loads):
        raise UsageError("--bench-plot", "draws shares of the capacity", "give --bench-loads some")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "--bench-plot",
            "matplotlib is not installed",
            "pip install 'fairseq-specdec[plots]', or leave it out",
        )
