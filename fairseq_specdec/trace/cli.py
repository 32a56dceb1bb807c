"""Look at traces: ``specdec-trace show`` in a terminal, ``specdec-trace html`` in a browser.

``fairseq-generate ... --task translation_specdec --trace-path FILE`` writes them. Several files, or
one with several strategies in it, show the strategies side by side.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.commands.own import brief, reporting
from fairseq_specdec.io.atomic import check_new_file, write_text
from fairseq_specdec.io.flag_values import AT_LEAST_1, add_flag

from .compare import chosen, systems_of
from .files import read_traces
from .page import html_of
from .record import TraceError
from .terminal import show

HTML_LIMIT = 100


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="specdec-trace", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    terminal = commands.add_parser(
        "show",
        help="print traces",
        description="Print traces: per iteration the draft, what became of each token, the "
        "verifier's own token, and times.",
    )
    html = commands.add_parser(
        "html",
        help="write a page",
        description="Write one HTML page that needs nothing else: step through a sentence, "
        "several strategies side by side.",
    )
    for command, limit in ((terminal, None), (html, HTML_LIMIT)):
        command.add_argument(
            "files", nargs="+", metavar="FILE", help="written by --trace-path; one system or more"
        )
        add_flag(command, "--id", "this sentence, 0 or more; may be repeated", type=int,
                 action="append", metavar="N", otherwise="the first ones")  # fmt: skip
        add_flag(command, "--limit", "at most so many sentences", AT_LEAST_1, limit,
                 limit or "all")  # fmt: skip
    add_flag(terminal, "--color", "colours", ("auto", "always", "never"), "auto",
             "auto, where the output is a terminal and NO_COLOR is not set")  # fmt: skip
    add_flag(html, "-o --output", "the page to write", metavar="FILE", required=True)
    add_flag(html, "--title", "its title", default="Draft, verify, accept")
    return parser


def _wants_colour(choice: str, stream: Any) -> bool:
    if choice == "auto":
        return bool(stream.isatty()) and not os.environ.get("NO_COLOR")
    return choice == "always"


def main(words: Sequence[str], stream: Any) -> None:
    args = brief(get_parser()).parse_args(list(words))
    if args.command == "html":
        check_new_file(args.output, "--output")
    systems = systems_of([(path, read_traces(path)) for path in args.files])
    ids, total = chosen(systems, args.id, args.limit)
    if not ids:
        raise TraceError(", ".join(args.files), "no sentence in it")
    if args.command == "show":
        for paragraph in show(systems, ids, _wants_colour(args.color, stream)):
            stream.write(paragraph + "\n\n")
    else:
        write_text(args.output, html_of(systems, ids, total, args.title))
        more = f" of {total} (--limit)" if total > len(ids) else ""
        stream.write(f"{args.output}: {len(ids)}{more} sentences, {len(systems)} systems\n")


def cli_main(arguments: list[str] | None = None) -> None:
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot show a character shows its escape.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with reporting("specdec-trace", arguments) as words:
            main(words, sys.stdout)
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; the interpreter must not flush a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    cli_main()
