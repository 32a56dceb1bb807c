"""The parsers of all commands, as ``shtab`` completes them in a shell.

``shtab --shell bash fairseq_specdec.commands.parsers.specdec_bench`` prints what completes
``specdec-bench``, the values of its flags, and where it takes files and folders. Completing starts
no Python; print it again after an update. shtab is the extra ``completion``.
"""

import argparse
import contextlib
import importlib
import sys
from typing import Any, Callable, Dict, Iterable

# Flags and arguments that name a file or a folder, beside those whose metavar says so.
FILES = ("path", "input", "output", "files", "bpe_codes")
FOLDERS = ("data", "user_dir", "data_bin")
Make = Callable[[], argparse.ArgumentParser]


def _module(name: str) -> Any:
    """A module of this package, which imports ``commands`` in turn."""
    return importlib.import_module("fairseq_specdec." + name)


def _parser(name: str) -> Make:
    """The ``get_parser`` of one of this package's modules."""
    return lambda: _module(name).get_parser()


def _task_parser(name: str) -> Make:
    """The same with the flags that fairseq adds for ``--task translation_specdec``."""
    return lambda: _add_task_flags(_module(name).get_parser())


def _add_task_flags(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    config = _module("config").TranslationSpecDecConfig
    gen_parser_from_dataclass(parser, config())
    for action in parser._actions:
        values = getattr(config.__dataclass_fields__.get(action.dest), "metadata", {}).get("values")
        if isinstance(values, tuple):
            action.choices = values
    return parser


def _fairseq(interactive: bool) -> argparse.ArgumentParser:
    from fairseq import options

    _module("tasks")  # registers the task
    task = "translation_specdec"
    return _add_task_flags(options.get_generation_parser(interactive, default_task=task))


COMMANDS: Dict[str, Make] = {
    "specdec-accelerate": _parser("accelerate.flags"),
    "specdec-bench": _task_parser("bench.session"),
    "specdec-convert": _parser("conversion.cli"),
    "specdec-costs": _parser("costs.cli"),
    "specdec-demo": _parser("demo.cli"),
    "specdec-distill": _task_parser("data.distill"),
    "specdec-edits": _parser("data.edits"),
    "specdec-env": _parser("environment.cli"),
    "specdec-flags": _parser("decoding.listed_flags"),
    "specdec-serve": _parser("serve.flags"),
    "specdec-shortlist": _parser("data.shortlist"),
    "specdec-trace": _parser("trace.cli"),
    "fairseq-generate": lambda: _fairseq(interactive=False),
    "fairseq-interactive": lambda: _fairseq(interactive=True),
}


def actions(parser: argparse.ArgumentParser) -> Iterable[Any]:
    """All flags and arguments, those of subcommands included."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)


def completed(command: str) -> argparse.ArgumentParser:
    """A parser that knows which words have a set of values, and which name files or folders."""
    shtab: Any = importlib.import_module("shtab")
    # What fairseq logs at import does not belong into what is printed.
    with contextlib.redirect_stdout(sys.stderr):
        parser = COMMANDS[command]()
        strategies = _module("decoding.strategies")
    parser.prog = command
    values = {"strategy": list(strategies.STRATEGIES), "strategies": list(strategies.STRATEGIES)}
    for action in actions(parser):
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
    return parser


def __getattr__(name: str) -> Make:
    """``specdec_bench``: the function that makes the parser of specdec-bench for shtab."""
    command = name.replace("_", "-")
    if command not in COMMANDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda: completed(command)
