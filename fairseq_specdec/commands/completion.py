"""``specdec-completion``: what a shell needs to complete the flags of this project's commands.

``specdec-completion bash > FILE`` and ``source FILE`` in ~/.bashrc; for zsh a file a command in a
folder of $fpath: ``specdec-completion zsh specdec-bench > ~/.zfunc/_specdec-bench``. The file holds
all that there is to know: completing starts no Python. It is made by shtab (the extra
``completion``) from the parsers themselves; make it again after an update.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence

import fairseq_specdec

from .own import brief, reporting

SHELLS = ("bash", "zsh")
# Flags and arguments that name a file or a folder, beside those whose metavar says so.
FILES = ("path", "input", "output", "files", "bpe_codes")
FOLDERS = ("data", "user_dir", "data_bin")


def _module(name: str) -> Any:
    """A module of this package, which imports ``commands`` in turn."""
    return importlib.import_module("fairseq_specdec." + name)


def _parser(name: str) -> Callable[[], argparse.ArgumentParser]:
    """The ``get_parser`` of one of this package's modules."""
    return lambda: _module(name).get_parser()


def _task_parser(name: str) -> Callable[[], argparse.ArgumentParser]:
    """The same with the flags that fairseq adds for ``--task translation_specdec``."""
    return lambda: _add_task_flags(_module(name).get_parser())


def _add_task_flags(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    gen_parser_from_dataclass(parser, _module("config").TranslationSpecDecConfig())
    return parser


def _fairseq(interactive: bool) -> argparse.ArgumentParser:
    from fairseq import options

    _module("tasks")  # registers the task
    task = "translation_specdec"
    return _add_task_flags(options.get_generation_parser(interactive, default_task=task))


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="specdec-completion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="whose language to write")
    parser.add_argument(
        "commands",
        nargs="*",
        metavar="COMMAND",
        help=f"which of {', '.join(COMMANDS)} (default: all of them)",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {fairseq_specdec.__version__}"
    )
    return parser


COMMANDS: Dict[str, Callable[[], argparse.ArgumentParser]] = {
    "specdec-accelerate": _parser("accelerate.flags"),
    "specdec-bench": _task_parser("bench.session"),
    "specdec-completion": get_parser,
    "specdec-convert": _parser("conversion.cli"),
    "specdec-demo": _parser("demo.cli"),
    "specdec-distill": _task_parser("data.distill"),
    "specdec-flags": _parser("decoding.listed_flags"),
    "specdec-noise": _parser("noise.cli"),
    "specdec-trace": _parser("trace.cli"),
    "fairseq-generate": lambda: _fairseq(interactive=False),
    "fairseq-interactive": lambda: _fairseq(interactive=True),
}


def _actions(parser: argparse.ArgumentParser) -> Iterable[Any]:
    """All flags and arguments, those of subcommands included."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _say_kinds(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Say which words have a known set of values, and which name files or folders."""
    strategies = _module("decoding.strategies")
    values = {
        "replay": list(_module("bench.random_pair").SIZES),
        "strategy": list(strategies.STRATEGIES),
        "strategies": list(strategies.STRATEGIES),
        "drafter_dtype": list(strategies.DRAFTER_DTYPES),
        "commands": list(COMMANDS),
    }
    for action in _actions(parser):
        if action.choices is not None or action.nargs == 0:
            continue
        if action.dest in values and (action.dest != "strategies" or action.nargs == "+"):
            action.choices = values[action.dest]
        elif action.metavar in ("FILE", "TRACE") or action.dest in FILES:
            action.complete = shtab.FILE
        elif action.metavar in ("DIR", "FOLDER") or action.dest in FOLDERS:
            action.complete = shtab.DIRECTORY
        elif action.dest.endswith("_path"):
            action.complete = shtab.FILE


def script(shell: str, commands: Sequence[str]) -> str:
    """The text to source.

    Args:
        shell: one of SHELLS.
        commands: keys of COMMANDS.

    Raises:
        ValueError: shtab is not installed; names the remedy.
    """
    try:
        shtab: Any = importlib.import_module("shtab")
    except ImportError as error:
        raise ValueError(
            "shtab is not installed; pip install 'fairseq-specdec[completion]'"
        ) from error
    parts: List[str] = []
    for name in commands:
        # Whatever importing fairseq says does not belong into the script.
        with contextlib.redirect_stdout(sys.stderr):
            parser = COMMANDS[name]()
            parser.prog = name
            _say_kinds(parser, shtab)
        parts.append(shtab.complete(parser, shell))
    return "\n".join(parts) + "\n"


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    """The console script ``specdec-completion``."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    parser = brief(get_parser())
    args = parser.parse_args(arguments)
    unknown = [name for name in args.commands if name not in COMMANDS]
    if unknown:
        parser.error(f"no command {unknown[0]!r}; choose from {', '.join(COMMANDS)}")
    with reporting("specdec-completion"):
        sys.stdout.write(script(args.shell, args.commands or list(COMMANDS)))


if __name__ == "__main__":
    cli_main()
