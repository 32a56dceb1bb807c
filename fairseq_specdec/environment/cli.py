"""``specdec-env``: print a table of this installation, to paste into an issue."""

import argparse
import sys
from typing import Optional, Sequence

from fairseq_specdec.commands.own import brief, command_parser, reporting

from .table import as_markdown, rows


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-env",
        "Print versions, processor, native engine, threads and GPU as a table, to "
        "paste into an issue. What cannot be imported is shown with its error.",
    )
    parser.add_argument(  # answered by commands.start, before anything is imported
        "--user-dir", action="store_true", help="print the plugin's folder alone: fairseq-generate "
        '--user-dir "$(specdec-env --user-dir)" works in any folder (default: the table)',
    )  # fmt: skip
    return parser


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    with reporting("specdec-env", arguments) as words:
        brief(get_parser()).parse_args(words)
        sys.stdout.write(as_markdown(rows()))


if __name__ == "__main__":
    cli_main()
