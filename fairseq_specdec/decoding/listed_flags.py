"""``specdec-flags``: what ``--task translation_specdec`` adds to fairseq's commands.

fairseq's ``--help`` never shows the flags of a plugin's task: its parser answers before the plugin
is imported.
"""

import argparse
import dataclasses
import sys
import textwrap
from typing import Iterator, Optional, Sequence

from fairseq_specdec.commands.own import brief, command_parser, reporting
from fairseq_specdec.config import OWN_FIELDS
from fairseq_specdec.io.flag_values import add_flag

from .strategies import OWN_FLAGS, STRATEGIES

TASK = "translation_specdec"
INDENT = " " * 6


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-flags",
        f"List the flags that --task {TASK} adds to fairseq-generate, fairseq-interactive and "
        "fairseq-train.",
    )
    add_flag(parser, "strategy", f"only what this one reads: {', '.join(STRATEGIES)}",
             tuple(STRATEGIES), otherwise="all flags", nargs="?", metavar="STRATEGY")  # fmt: skip
    return parser


def _fields(strategy: Optional[str]) -> Iterator[dataclasses.Field]:
    for each in OWN_FIELDS:
        wanted = strategy is None or strategy in OWN_FLAGS.get(each.name, (strategy,))
        drafts = each.name != "drafter_path" or strategy is None
        if wanted and (drafts or STRATEGIES[str(strategy)].needs_drafter):
            yield each


def listed(strategy: Optional[str] = None) -> str:
    """The flags with their help."""
    lines = [f"Flags of --task {TASK}" + (f" --strategy {strategy}" if strategy else "") + ":"]
    for each in _fields(strategy):
        switch = each.default is False
        value = "" if switch else " " + each.name.split("_")[-1].upper()
        lines += ["", f"  --{each.name.replace('_', '-')}{value}"]
        lines += textwrap.wrap(
            str(each.metadata["help"]), 96, initial_indent=INDENT, subsequent_indent=INDENT
        )
    return "\n".join(lines) + "\n"


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    with reporting("specdec-flags", arguments) as words:
        sys.stdout.write(listed(brief(get_parser()).parse_args(words).strategy))


if __name__ == "__main__":
    cli_main()
