"""The flags of ``specdec-serve --bench``."""

from __future__ import annotations

import argparse
import importlib.util
import os
from typing import List

from fairseq_specdec.io.flag_values import InRange, Range

from .figures import Load, loads_of
from .picture import ENDINGS

# Where a server listens is not to be chosen: on this machine only.
_FIXED = ("host", "port", "token_file")


def add_bench_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "measuring", "A server of this command line is started on 127.0.0.1, asked, and ended."
    )
    group.add_argument(
        "--bench",
        metavar="FILE",
        help="measure with the texts of this file, one a line, and serve nobody else (default: "
        "serve)",
    )
    group.add_argument(
        "--bench-loads",
        metavar="LOADS",
        default="1,8,80%,200%",
        help="clients that each wait for their answers, and shares of the capacity that come at "
        "random times (default: %(default)s)".replace("80%,", "80%%,").replace("200%", "200%%"),
    )
    group.add_argument(
        "--bench-requests",
        action=InRange,
        values=Range(1, 1_000_000, whole=True),
        default=1000,
        help="most requests of a load, %(values)s (default: %(default)s)",
    )
    group.add_argument(
        "--bench-seconds",
        action=InRange,
        values=Range(0, 3600, above=True),
        default=60.0,
        help="seconds in which a load is sent, %(values)s (default: %(default)s)",
    )
    group.add_argument(
        "--bench-peers",
        action="store_true",
        help="also with CTranslate2 in the engine's place, float32 and int8; needs the extra "
        "bench-peers (default: off)",
    )
    group.add_argument(
        "--bench-json", metavar="FILE", help="write all figures here (default: do not)"
    )
    group.add_argument(
        "--bench-plot",
        metavar="FILE",
        help="draw the times of answers against answers a second, of loads that are shares of the "
        "capacity, as .svg or .png; needs the extra plots (default: do not)",
    )


def checked(args: argparse.Namespace, parser: argparse.ArgumentParser) -> List[Load]:
    """The loads, before any model is loaded."""
    if args.config is not None:
        raise ValueError("--config: --bench measures one pair; give its flags instead")
    for name in _FIXED:
        if getattr(args, name) != parser.get_default(name):
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag}: --bench asks 127.0.0.1 at a free port; leave it out")
    if args.bench_peers and importlib.util.find_spec("ctranslate2") is None:
        raise ValueError(
            "--bench-peers: CTranslate2 is not installed; pip install "
            "'fairseq-specdec[bench-peers]', or leave it out"
        )
    loads = loads_of(args.bench_loads)
    if args.bench_plot is not None:
        _check_plot(args.bench_plot, loads)
    return loads


def _check_plot(path: str, loads: List[Load]) -> None:
    if not path.endswith(ENDINGS):
        raise ValueError(f"--bench-plot {path}: expected a name that ends in .svg or .png")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise ValueError(f"--bench-plot {path}: its folder does not exist; make it first")
    if not any(load.share for load in loads):
        raise ValueError("--bench-plot: draws shares of the capacity; give --bench-loads some")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError(
            "--bench-plot: matplotlib is not installed; pip install 'fairseq-specdec[plots]', or "
            "leave it out"
        )
