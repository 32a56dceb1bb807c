"""``python -m fairseq_specdec.costs.cli``: measures what passes take on this processor."""

import argparse
import sys
from collections.abc import Sequence

from fairseq_specdec.commands.own import brief, command_parser, load_plugin, reporting
from fairseq_specdec.engine.native.library import load, why_not
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import add_flag

from .figures import FORMATS, Figures, save
from .tables import UNDISTURBED, kept_at, measured

_SHOWN = (1, 2, 4, 8, 16, 32)


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_parser(
        "python -m fairseq_specdec.costs.cli",
        "Measure what products, reads and layers take on this processor, in 0.5 s on "
        "an idle one. By these figures decoding chooses how much to draft (--cost-table).",
    )
    add_flag(parser, "output", "file to write, for --cost-table", nargs="?", metavar="FILE",
             otherwise="the one in the user's cache folder that is used without "
             "--cost-table")  # fmt: skip
    return parser


def _shown(figures: Figures) -> str:
    lines = [
        f"{figures.processor}: thousand million multiply-adds per second by rows of a product",
        "rows    " + "".join(f"{rows:>8}" for rows in _SHOWN),
    ]
    for name in FORMATS:
        speeds = [1e-9 * rows / figures.multiply(name, rows, 1.0) for rows in _SHOWN]
        lines.append(f"{name:<8}" + "".join(f"{speed:>8.0f}" for speed in speeds))
    pairs = zip(figures.sizes, figures.reads)
    reads = [f"{1e-9 / each:.0f} of {size / 2**20:g} MiB" for size, each in pairs]
    lines.append(f"GB read per second: {', '.join(reads)}")
    return "\n".join(lines)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    """The console script ``python -m fairseq_specdec.costs.cli``."""
    with reporting("python -m fairseq_specdec.costs.cli", arguments) as words:
        args = brief(get_parser()).parse_args(words)
        library = load()
        if library is None:
            raise UsageError("needs the native engine", why_not())
        figures, share = measured(library)
        path = args.output or str(kept_at(library.variant))
        save(figures, path)
        busy = f"; other programs had {1 - share:.0%} of the time" if share < UNDISTURBED else ""
        sys.stdout.write(f"{_shown(figures)}\nwritten to {path}{busy}\n")


if __name__ == "__main__":
    cli_main()
