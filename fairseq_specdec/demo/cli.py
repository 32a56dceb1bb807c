"""``specdec-demo``: type a sentence in the browser and watch strategies race on it.

The page is served on 127.0.0.1 only, for this machine. Strategies share one verifier in memory and
decode one after another, so that each is timed alone.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.commands.own import brief, command_parser, reporting
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.hub.command_line import (
    add_decoding_flags,
    add_model_flags,
    loading_arguments,
    verifier_of,
)
from fairseq_specdec.io.flag_values import AT_LEAST_0, add_flag

from .racers import Pair, load_racers, warmed
from .server import ADDRESS, DemoServer

PORT = 8642
REPEATS = 3
# Decoding flags of fairseq-generate that are flags here too, with what they are made of.
DECODING: dict[str, Any] = {
    "block_size": int,
    "draft_confidence": float,
    "draft_budget": int,
    "top_beta": int,
    "tau": float,
    "regret_budget": float,
    "alpha_fb": float,
    "alpha_rb": float,
}


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser("specdec-demo", __doc__)
    add_flag(parser, "--port", f"port on {ADDRESS}, from 0 to 65535; 0 picks a free one",
             default=PORT, type=int)  # fmt: skip
    which = parser.add_argument_group("models")
    add_model_flags(which)
    add_flag(which, "--small-path", "small Transformer of sps and bild",
             otherwise="none, they do not race")  # fmt: skip
    racing = parser.add_argument_group("race")
    add_flag(
        racing,
        "--strategies",
        f"who races: {', '.join(STRATEGIES)}",
        otherwise="greedy, and what the models allow: gad and gad++ with a block drafter, sps and "
        "bild with --small-path; iad if there is neither and the dictionaries are joined",
        nargs="+",
        metavar="STRATEGY",
    )
    add_flag(racing, "--repeats", "timed runs of each strategy in a race; the page shows their "
             "median", AT_LEAST_0, REPEATS)  # fmt: skip
    decoding = parser.add_argument_group(
        "decoding", "Each goes to the strategies that use it, as with fairseq-generate."
    )
    add_decoding_flags(decoding, DECODING)
    return parser


def start(words: Sequence[str]) -> DemoServer:
    """A server with its models loaded, ready for ``serve_forever``."""
    args = brief(get_parser()).parse_args(list(words))
    pair = Pair(verifier_of(args), args.drafter_path, args.small_path, **loading_arguments(args))
    # The port first: if it is taken, that shows before models are loaded.
    server = DemoServer(args.port, args.repeats)
    try:
        racers = load_racers(
            pair, args.strategies, {name: getattr(args, name) for name in DECODING}
        )
        warmed(racers.translators, racers.examples)
        server.enter(racers)
    except BaseException:
        server.server_close()
        raise
    return server


def cli_main(arguments: list[str] | None = None) -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    with reporting("specdec-demo", arguments) as words:
        server = start(words)
    assert server.racers is not None
    names = ", ".join(server.racers.translators)
    sys.stdout.write(f"{names} race at {server.url} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    finally:
        server.server_close()


if __name__ == "__main__":
    cli_main()
