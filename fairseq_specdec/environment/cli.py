"""``specdec-env``: this installation as a table, to paste into an issue; and the decoding flags."""

import argparse
import sys
from typing import Optional, Sequence

from fairseq_specdec.commands.own import brief, command_parser, reporting

from .table import as_markdown, rows


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-env",
        "Print versions, processor, native engine, threads and GPU as a table, to paste into an "
        "issue. What cannot be imported is shown with its error.",
    )
    parser.add_argument(
        "--flags",
        nargs="?",
        const="",
        metavar="STRATEGY",
        help="list the flags that --task translation_specdec adds to fairseq's commands instead, "
        "or those that one strategy reads",
    )
    return parser


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    with reporting("specdec-env", arguments) as words:
        asked = brief(get_parser()).parse_args(words).flags
        if asked is None:
            sys.stdout.write(as_markdown(rows()))
            return
        from fairseq_specdec.decoding.listed_flags import listed  # imports fairseq

        sys.stdout.write(listed(asked or None))


if __name__ == "__main__":
    cli_main()
