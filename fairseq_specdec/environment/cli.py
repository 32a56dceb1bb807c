"""``specdec-env``: this installation, or how a model decodes here, as a table to paste into an
issue; and the decoding flags.

What cannot be imported is shown with its error, since a table is asked for where something broke.
"""

import argparse
import functools
import os
import platform
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module, metadata

import fairseq_specdec
from fairseq_specdec.commands.own import brief, command_parser, reporting
from fairseq_specdec.engine.native import library
from fairseq_specdec.errors import UsageError, printable
from fairseq_specdec.io import provenance
from fairseq_specdec.io.flag_values import flag_of
from fairseq_specdec.version import __version__

# Distributions that import as ``fairseq``; setup.py chooses one.
FAIRSEQS = ("fairseq", "ve-fairseq", "fairseq-fixed")
OTHERS = (
    "torchaudio", "numpy", "omegaconf", "hydra-core", "sacrebleu", "subword-nmt", "sacremoses",
    "sentencex",
)  # fmt: skip
# What changes a run without being on its command line.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "FAIRSEQ_SPECDEC_")


def _versions(names: Iterable[str], none: str) -> str:
    there = {each.metadata["Name"]: each.version for each in metadata.distributions()}
    return ", ".join(f"{name} {there[name]}" for name in names if name in there) or none


def _gpu() -> str:
    """Each card, and whether this torch has kernels for it."""
    torch, devices = import_module("torch"), import_module("fairseq_specdec.engine.devices")
    if not torch.cuda.is_available():
        why = "no driver or card found" if torch.version.cuda else "this torch is a CPU build"
        return f"none ({why})"
    cards = []
    for i in range(torch.cuda.device_count()):
        name, (major, minor) = torch.cuda.get_device_name(i), torch.cuda.get_device_capability(i)
        memory = torch.cuda.get_device_properties(i).total_memory / 1e9
        fits = devices.why_not(torch.device("cuda", i)) or "torch has kernels for it"
        cards.append(f"{name}, sm_{major}{minor}, {memory:.0f} GB: {fits}")
    return "; ".join(cards)


ROWS: dict[str, Callable[[], str]] = {
    "fairseq_specdec": lambda: f"{__version__}, commit {provenance.commit()}",
    "Python": lambda: f"{platform.python_version()}, {platform.platform()}",
    "fairseq": lambda: _versions(FAIRSEQS, f"{import_module('fairseq').__file__}, not installed"),
    "torch": lambda: f"{(torch := import_module('torch')).__version__}, "
                     f"CUDA {torch.version.cuda or 'none'}",
    "also installed": lambda: _versions(OTHERS, "nothing else"),
    "processor": lambda: f"{provenance.cpu()}, {platform.machine()}, {provenance.cores()} cores, "
                         f"{provenance.memory_bytes() / 1e9:.0f} GB of memory",
    "variants it runs": lambda: (
        ", ".join(each.name for each in library.supported(library.FOLDER)[::-1]) or "none"),
    "native engine": lambda: (
        f"yes: {loaded.variant}" if (loaded := library.load()) else f"no: {library.why_not()}"),
    "threads": lambda: f"native engine {library.threads_wanted(os.environ)}, "
                       f"torch {import_module('torch').get_num_threads()}",
    "GPU": _gpu,
    "environment": lambda: ", ".join(
        f"{name}={value}" for name, value in sorted(os.environ.items())
        if name.startswith(VARIABLES)) or "nothing set",
}  # fmt: skip


def of_model(words: Sequence[str]) -> dict[str, Callable[[], str]]:
    """How a model decodes here, and why. ``words``: as ``specdec-translate`` takes them."""
    hub = import_module("fairseq_specdec.hub.cli")
    args = brief(hub.get_parser()).parse_args(list(words))
    with hub.translator_of(args, hub.flags_of(args)) as translator:
        return {name: functools.partial(str, fact) for name, fact in translator.facts().items()}


def table(rows: Mapping[str, Callable[[], str]] = ROWS) -> str:
    """Markdown of two columns."""
    lines = ["| | |", "|---|---|"]
    for name, ask in rows.items():
        try:
            value = ask()
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
        lines.append(f"| {name} | {printable(value).replace('|', '/')} |")
    return "\n".join([*lines, ""])


def listed(strategy: str | None = None) -> str:
    """The flags that ``--task translation_specdec`` adds to fairseq's commands, or those that a
    strategy reads. fairseq's ``--help`` never shows them: its parser answers before the plugin is
    imported. Raises UsageError: there is no such strategy."""
    from fairseq_specdec.config import OWN_FIELDS
    from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES

    if strategy is not None and strategy not in STRATEGIES:
        raise UsageError(f"--flags {strategy}", "unknown", f"choose one of {', '.join(STRATEGIES)}")
    lines = ["Flags of --task translation_specdec" + f" --strategy {strategy}" * bool(strategy)]
    for each in OWN_FIELDS:
        if strategy is not None:
            drafts = each.name != "drafter_path" or STRATEGIES[strategy].needs_drafter
            if not drafts or strategy not in OWN_FLAGS.get(each.name, (strategy,)):
                continue
        value = "" if each.default is False else " " + each.name.split("_")[-1].upper()
        lines += ["", f"  {flag_of(each.name)}{value}"]
        lines.append(textwrap.indent(textwrap.fill(str(each.metadata["help"]), 90), " " * 6))
    return "\n".join(lines) + "\n"


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-env",
        "Print versions, processor, native engine, threads and GPU as a table, to paste into an "
        "issue. What cannot be imported is shown with its error. With MODEL: how it decodes here.",
    )
    parser.add_argument(
        "model", metavar="MODEL", nargs=argparse.REMAINDER, help="a model, and flags, as of "
        "specdec-translate: print what is chosen to decode it, and why, instead of the table",
    )  # fmt: skip
    parser.add_argument(
        "--user-dir", action="store_true", help="print the plugin's folder alone: fairseq-generate "
        '--user-dir "$(specdec-env --user-dir)" works in any folder (default: the table)',
    )  # fmt: skip
    parser.add_argument(
        "--flags", nargs="?", const="", metavar="STRATEGY", help="list the flags that --task "
        "translation_specdec adds to fairseq's commands instead, or those that a strategy reads "
        "(default: the table)",
    )  # fmt: skip
    return parser


def cli_main(arguments: Sequence[str] | None = None) -> None:
    with reporting("specdec-env", arguments) as words:
        args = brief(get_parser()).parse_args(words)
        if args.user_dir:
            sys.stdout.write(os.path.dirname(os.path.abspath(fairseq_specdec.__file__)) + "\n")
        elif args.flags is not None:
            sys.stdout.write(listed(args.flags or None))
        else:
            sys.stdout.write(table(of_model(args.model)) if args.model else table())


if __name__ == "__main__":
    cli_main()
