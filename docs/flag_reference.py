"""The parsers of this project's commands, and their flags as the page ``flags`` shows them."""

import argparse
import importlib
from collections.abc import Iterable

from fairseq_specdec.config import OWN_FIELDS

MODULES = {
    "specdec-accelerate": "accelerate.cli",
    "specdec-bench": "bench.session",
    "specdec-convert": "conversion.cli",
    "specdec-distill": "data.distill",
    "specdec-env": "environment.cli",
    "specdec-serve": "serve.cli",
    "specdec-trace": "trace.cli",
    "specdec-translate": "hub.cli",
    "fairseq_specdec.data.shortlist": "data.shortlist",
}


def parser_of(program: str) -> argparse.ArgumentParser:
    """The parser of a command of ``MODULES``."""
    made = importlib.import_module(f"fairseq_specdec.{MODULES[program]}").get_parser()
    return made  # type: ignore[no-any-return]


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| `{name}` | {text.replace('|', ', ')} |" for name, text in rows]
    return "\n".join(["| flag | what it sets |", "|---|---|", *lines])


def _flags(parser: argparse.ArgumentParser) -> str:
    """A parser's flags as a table; of those that fairseq has made only the command's own group."""
    fairseqs = any(group.title == "Generation" for group in parser._action_groups)
    actions = parser._action_groups[-1]._group_actions if fairseqs else parser._actions
    nested = [a.choices for a in actions if isinstance(a, argparse._SubParsersAction)]
    if nested:
        parts = (f"### {name}\n\n{_flags(inner)}" for name, inner in nested[0].items())
        return "\n\n".join(parts)
    formatter = parser._get_formatter()
    return _table(
        (", ".join(a.option_strings) or str(a.metavar or a.dest), formatter._expand_help(a))
        for a in actions
        if a.help and a.dest not in ("help", "version")
    )


def reference() -> str:
    """Every flag of every command as Markdown."""
    added = [("--" + e.name.replace("_", "-"), str(e.metadata["help"])) for e in OWN_FIELDS]
    parts = [f"## Decoding\n\n{_table(added)}"]
    for program in MODULES:
        parser = parser_of(program)
        name = program if program.startswith("specdec") else f"python -m {program}"
        parts.append(f"## {name}\n\n{parser.description}\n\n{_flags(parser)}")
    return "\n\n".join(parts) + "\n"
