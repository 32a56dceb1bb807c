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

from .compare import Systems, settings_text, systems_of
from .record import read_traces
from .terminal import show


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="specdec-trace", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, limit, text in (
        ("show", None, "print per iteration the draft, what became of each token, the verifier's "
         "own token, times; in colours where a terminal has them and NO_COLOR is not set"),
        ("html", 100, "write a page that needs no other file: step through a sentence, several "
         "strategies side by side"),
    ):  # fmt: skip
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument(
            "files", nargs="+", metavar="FILE", help="written by --trace-path; one system or more"
        )
        add_flag(command, "--id", "this sentence, 0 or more; may be repeated", type=int,
                 action="append", metavar="N", otherwise="the first ones")  # fmt: skip
        add_flag(command, "--limit", "at most so many sentences", AT_LEAST_1, limit, limit or "all")
    add_flag(command, "-o --output", "the page to write", metavar="FILE", required=True)
    return parser


def _sentence(number: int, systems: Systems) -> dict[str, Any]:
    """A sentence as the viewer shows it."""
    having = {name: traces[number] for name, traces in systems.items() if number in traces}
    first = next(iter(having.values()))
    runs = [
        {**trace.to_dict(), "name": name, "settings": settings_text(trace)}
        for name, trace in having.items()
    ]
    return {"id": number, "source": first.source, "text": first.source_text, "runs": runs}


def main(words: Sequence[str], stream: TextIO) -> None:
    """Run the command, which prints to ``stream``."""
    args = brief(get_parser()).parse_args(list(words))
    if args.command == "html":
        check_new_file(args.output, "--output")
    systems = systems_of([(path, read_traces(path)) for path in args.files])
    present = dict.fromkeys(number for traces in systems.values() for number in traces)
    for number in args.id or ():
        if number not in present:
            raise UsageError(f"--id {number}", "no such sentence", f"there are {len(present)}")
    wanted = list(dict.fromkeys(args.id or present))
    if not wanted:
        raise UsageError(", ".join(args.files), "no sentence in it")
    ids = wanted[: args.limit]
    if args.command == "show":
        for paragraph in show(systems, ids, stream.isatty() and not os.environ.get("NO_COLOR")):
            stream.write(paragraph + "\n\n")
    else:
        sentences = [_sentence(number, systems) for number in ids]
        data = {"verdicts": VERDICTS, "total": len(wanted), "sentences": sentences}
        write_text(args.output, page("Draft, verify, accept", "trace", data))
        more = f" of {len(wanted)} (--limit)" if len(wanted) > len(ids) else ""
        stream.write(f"{args.output}: {len(ids)}{more} sentences, {len(systems)} systems\n")


def cli_main(arguments: list[str] | None = None) -> None:
    # A terminal that cannot show a character shows its escape.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    with reporting("specdec-trace", arguments) as words:
        main(words, sys.stdout)


if __name__ == "__main__":
    cli_main()
