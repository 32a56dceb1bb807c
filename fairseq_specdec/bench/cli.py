"""Compare decoding systems: speed, output and what they cost, paired in one run.

``specdec-bench DATA --path VERIFIER --system 'NAME: FLAGS' ...`` decodes the same sentences with
stock fairseq (beam 5 and beam 1) and with every system named, in turn, one batch at a time, checks
their outputs against stock beam 1, and prints tables. See docs/benchmarks.md.
"""

import logging
import sys
from collections.abc import Sequence
from typing import Any

import fairseq_specdec.tasks  # noqa: F401  (the plugin)

from ..commands.own import again, reporting
from . import peers, session, tables
from .run import Bench


def main(words: Sequence[str], write: Any) -> dict[str, Any]:
    return run(Bench(session.read(words)), write)


def run(bench: Bench, write: Any) -> dict[str, Any]:
    """Measure what a run has not measured yet, write its files, and print its tables."""
    bench.resume()
    left = bench.left
    try:
        for size in left:
            bench.measure_size(size)
            bench.write()  # so that a kill costs one batch size
    finally:
        peers.close(bench.systems)
    if not bench.args.no_memory and bench.results["memory"] is None:
        bench.measure_memory()
        bench.write()
    elif not left:
        bench.write()  # the kill may have come between one file and the next
    write(tables.document(bench.results))
    return bench.results


def cli_main(arguments: Sequence[str] | None = None) -> None:
    # fairseq logs every file that it opens at level INFO.
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    with reporting("specdec-bench", arguments, _kept) as words:
        main(words, sys.stdout.write)


def _kept(words: Sequence[str]) -> str:
    """What a run that was stopped has left, and how to go on."""
    if not any(word.split("=")[0] == "--json" for word in words):
        return "nothing is saved without --json"
    more = [] if "--resume" in words else ["--resume"]
    command = again("specdec-bench", [*words, *more])
    return f"batch sizes that were complete are in the --json file; go on with: {command}"


if __name__ == "__main__":
    cli_main()
