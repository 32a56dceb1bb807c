"""Look at traces: ``specdec-trace show`` in a terminal, ``specdec-trace html`` in a browser.

``fairseq-generate ... --task translation_specdec --trace-path FILE`` writes them. Several files, or
one with several strategies in it, show the strategies side by side.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from fairseq_specdec.commands.own import brief, reporting
from fairseq_specdec.decoding.iteration import VERDICTS
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file, write_text
from fairseq_specdec.io.flag_values import AT_LEAST_1, add_flag
from fairseq_specdec.viewer.page import page

from .compare import TracedSystem, chosen, settings_text, systems_of
from .record import read_traces
from .terminal import show


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="specdec-trace", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    words = "per iteration the draft, what became of each token, the verifier's own token, times"
    terminal = commands.add_parser("show", help="print traces", description=f"Print {words}.")
    words = "that needs no other file: step through a sentence, several strategies side by side"
    html = commands.add_parser("html", help="write a page", description=f"Write a page {words}.")
    for command, limit in ((terminal, None), (html, 100)):
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


def _sentence(number: int, systems: Sequence[TracedSystem]) -> dict[str, Any]:
    """A sentence as the viewer shows it."""
    having = [system for system in systems if number in system.traces]
    first = having[0].traces[number]
    runs = []
    for each in having:
        facts = {"name": each.name, "settings": settings_text(each.settings)}
        runs.append({**each.traces[number].to_dict(), **facts})
    return {"id": number, "source": first.source, "text": first.source_text, "runs": runs}


def main(words: Sequence[str], stream: TextIO) -> None:
    """Run the command, which prints to ``stream``."""
    args = brief(get_parser()).parse_args(list(words))
    if args.command == "html":
        check_new_file(args.output, "--output")
    systems = systems_of([(path, read_traces(path)) for path in args.files])
    ids, total = chosen(systems, args.id, args.limit)
    if not ids:
        raise UsageError(", ".join(args.files), "no sentence in it")
    if args.command == "show":
        terminal = stream.isatty() and not os.environ.get("NO_COLOR")
        colour = args.color == "always" or (args.color == "auto" and terminal)
        for paragraph in show(systems, ids, colour):
            stream.write(paragraph + "\n\n")
    else:
        sentences = [_sentence(number, systems) for number in ids]
        data = {"verdicts": VERDICTS, "total": total, "sentences": sentences}
        write_text(args.output, page(args.title, "trace", data))
        more = f" of {total} (--limit)" if total > len(ids) else ""
        stream.write(f"{args.output}: {len(ids)}{more} sentences, {len(systems)} systems\n")


def cli_main(arguments: list[str] | None = None) -> None:
    # A terminal that cannot show a character shows its escape.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    with reporting("specdec-trace", arguments) as words:
        main(words, sys.stdout)


if __name__ == "__main__":
    cli_main()
