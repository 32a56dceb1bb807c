"""``specdec-env``: print a table of this installation, to paste into an issue."""

import argparse
import sys
from typing import Optional, Sequence

from fairseq_specdec.commands.own import brief, command_parser, reporting

from .table import as_markdown, rows


def get_parser() -> argparse.ArgumentParser:
    return command_parser(
        "specdec-env",
        "Print versions, processor, native engine, threads and GPU as a table, to "
        "paste into an issue. What cannot be imported is shown with its error.",
    )


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    with reporting("specdec-env", arguments) as words:
        brief(get_parser()).parse_args(words)
        sys.stdout.write(as_markdown(rows()))


if __name__ == "__main__":
    cli_main()
