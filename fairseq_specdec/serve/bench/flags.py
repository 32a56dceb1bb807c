"""The flags of ``specdec-serve --bench``."""

from __future__ import annotations

import argparse
import importlib.util
from typing import List

from fairseq_specdec.io.flag_values import InRange, Range

from .figures import Load, loads_of

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
    return loads_of(args.bench_loads)
