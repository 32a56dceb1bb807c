"""``specdec-convert``: the authors' drafters, models of transformers, packed weights."""

import argparse
import sys
from collections.abc import Sequence

from fairseq_specdec.commands.own import (
    brief,
    command_parser,
    load_plugin,
    log_to_stderr,
    reporting,
)
from fairseq_specdec.io.flag_values import add_flag

from . import drafter, pack
from .hf.convert import convert

DRAFTER = (
    "Convert a block drafter's checkpoint: one that the authors of SpecDec released or that was "
    "trained with their scripts, or an older one of fairseq_specdec."
)
HF = (
    "Convert a model folder of transformers (Marian, M2M-100, NLLB-200, mBART, BART) to a "
    "checkpoint, dictionary and subword model that fairseq and this project decode. Prints the "
    "commands to decode with."
)
PACK = (
    "Pack the weights of a verifier's checkpoint for this processor. The file that is written is "
    "mapped, not read: it starts at once, and processes share its memory (docs/models.md)."
)


def get_parser() -> argparse.ArgumentParser:
    text = "Convert models to what fairseq and this project read."
    parser = command_parser("specdec-convert", text)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    inner = commands.add_parser("drafter", help="a block drafter", description=DRAFTER)
    drafter.add_arguments(inner)
    inner = commands.add_parser("pack", help="weights packed for this processor", description=PACK)
    pack.add_arguments(inner)
    inner = commands.add_parser("hf", help="a model of transformers", description=HF)
    inner.set_defaults(run=_convert_hf)
    inner.add_argument("folder", metavar="DIR", help="folder with config.json and the weights")
    add_flag(inner, "--out", "folder to write", metavar="OUT", required=True)
    for side in ("source", "target"):
        add_flag(inner, f"--{side}-lang", f"{side} language, by the model's own code, for the "
                 "printed commands", metavar="LANG",
                 otherwise=f"as the tokenizer says, else {side}")  # fmt: skip
    add_flag(inner, "--force", "write into OUT if it holds something", default=False)
    return parser


def _convert_hf(args: argparse.Namespace) -> None:
    languages = (args.source_lang, args.target_lang)
    sys.stdout.write(convert(args.folder, args.out, *languages, args.force))


def main(args: argparse.Namespace) -> None:
    args.run(args)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    log_to_stderr()
    with reporting("specdec-convert", arguments) as words:
        if words and words[0] not in ("drafter", "hf", "pack", "-h", "--help", "--version"):
            words = ["drafter", *words]  # as before there were other subcommands
        main(brief(get_parser()).parse_args(words))


if __name__ == "__main__":
    cli_main()
