"""``specdec-env --flags``: what ``--task translation_specdec`` adds to fairseq's commands.

fairseq's ``--help`` never shows the flags of a plugin's task: its parser answers before the plugin
is imported.
"""

import dataclasses
import textwrap
from collections.abc import Iterator

from fairseq_specdec.config import OWN_FIELDS
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.errors import UsageError

TASK = "translation_specdec"
INDENT = " " * 6


def _fields(strategy: str | None) -> Iterator[dataclasses.Field]:
    for each in OWN_FIELDS:
        wanted = strategy is None or strategy in OWN_FLAGS.get(each.name, (strategy,))
        drafts = each.name != "drafter_path" or strategy is None
        if wanted and (drafts or STRATEGIES[str(strategy)].needs_drafter):
            yield each


def listed(strategy: str | None = None) -> str:
    """The flags with their help. Raises UsageError: there is no such strategy."""
    if strategy is not None and strategy not in STRATEGIES:
        raise UsageError(f"--flags {strategy}", "unknown", f"choose one of {', '.join(STRATEGIES)}")
    lines = [f"Flags of --task {TASK}" + (f" --strategy {strategy}" if strategy else "") + ":"]
    for each in _fields(strategy):
        switch = each.default is False
        value = "" if switch else " " + each.name.split("_")[-1].upper()
        lines += ["", f"  --{each.name.replace('_', '-')}{value}"]
        lines += textwrap.wrap(
            str(each.metadata["help"]), 96, initial_indent=INDENT, subsequent_indent=INDENT
        )
    return "\n".join(lines) + "\n"
