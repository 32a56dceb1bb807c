"""``specdec-env``: this installation as a table, to paste into an issue; and the decoding flags."""

import argparse
import os
import sys
from collections.abc import Sequence

import fairseq_specdec
from fairseq_specdec.commands.own import brief, command_parser, reporting


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-env",
        "Print versions, processor, native engine, threads and GPU as a table, to paste into an "
        "issue. What cannot be imported is shown with its error.",
    )
    parser.add_argument(
        "--user-dir", action="store_true", help="print the plugin's folder alone: fairseq-generate "
        '--user-dir "$(specdec-env --user-dir)" works in any folder (default: the table)',
    )  # fmt: skip
    parser.add_argument(
        "--flags", nargs="?", const="", metavar="STRATEGY", help="list the flags that --task "
        "translation_specdec adds to fairseq's commands instead, or those that a strategy reads "
        "(default: the table)",
    )  # fmt: skip
    return parser


def cli_main(arguments: Sequence[str] | None = None) -> None:
    with reporting("specdec-env", arguments) as words:
        args = brief(get_parser()).parse_args(words)
        if args.user_dir:
            folder = os.path.dirname(os.path.abspath(fairseq_specdec.__file__))
            sys.stdout.write(f"{folder}\n")
        elif args.flags is not None:
            from fairseq_specdec.decoding.listed_flags import listed  # imports fairseq

            sys.stdout.write(listed(args.flags or None))
        else:
            from .table import as_markdown, rows

            sys.stdout.write(as_markdown(rows()))


if __name__ == "__main__":
    cli_main()
