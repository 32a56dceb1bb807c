"""``--help`` of a command that takes fairseq-generate's flags too: its own flags, and no others."""

from __future__ import annotations

import argparse
from typing import Any, Sequence

WIDTH = 96
FAIRSEQ = (
    "All flags of fairseq-generate hold too (fairseq-generate --help), and those of --task "
    "translation_specdec (specdec-flags)."
)


def _wide(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=WIDTH)


def own_help(parser: Any, groups: Sequence[str] = (), usage: str = "") -> str:
    """The text of --help.

    Args:
        parser: of the command.
        groups: titles of the groups of its own flags, where others are fairseq's; none: all.
        usage: the line after "usage:" where groups are named.
    """
    if not groups:
        parser.formatter_class = (
            parser.formatter_class
            if parser.formatter_class is not argparse.HelpFormatter
            else _wide
        )
        return str(parser.format_help())
    formatter = _wide(parser.prog)
    formatter.add_usage(usage, [], [])
    formatter.add_text(parser.description)
    for group in parser._action_groups:
        if group.title in groups:
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
    formatter.add_text(FAIRSEQ)
    return formatter.format_help()
