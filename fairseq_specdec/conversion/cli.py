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

KINDS = {
    "drafter": "a block drafter: of the authors of SpecDec, or an older one of fairseq_specdec",
    "pack": "a verifier's weights packed for this processor, to be mapped (docs/models.md)",
    "hf": "a model folder of transformers: Marian, M2M-100, NLLB-200, mBART or BART",
}


def get_parser() -> argparse.ArgumentParser:
    about = "Convert models to what fairseq and this project read."
    parser = command_parser("specdec-convert", about)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    inner = {
        name: commands.add_parser(name, help=text, description=text) for name, text in KINDS.items()
    }
    drafter.add_arguments(inner["drafter"])
    pack.add_arguments(inner["pack"])
    hf = inner["hf"]
    hf.set_defaults(run=_convert_hf)
    hf.add_argument("folder", metavar="DIR", help="folder with config.json and the weights")
    add_flag(hf, "--out", "folder to write", metavar="OUT", required=True)
    for side in ("source", "target"):
        add_flag(hf, f"--{side}-lang", f"{side} language, by the model's own code, for the "
                 "printed commands", metavar="LANG",
                 otherwise=f"as the tokenizer says, else {side}")  # fmt: skip
    add_flag(hf, "--vocabulary-text", "plain text in the target language, whose most frequent "
             "tokens OUT/vocabulary.LANG.txt lists, for --vocabulary-list", metavar="FILE",
             otherwise="no list")  # fmt: skip
    add_flag(hf, "--force", "write into OUT if it holds something", default=False)
    return parser


def _convert_hf(args: argparse.Namespace) -> None:
    languages = (args.source_lang, args.target_lang)
    said = convert(args.folder, args.out, *languages, args.force, args.vocabulary_text)
    sys.stdout.write(said)


def main(args: argparse.Namespace) -> None:
    args.run(args)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    log_to_stderr()
    with reporting("specdec-convert", arguments) as words:
        if words and words[0] not in (*KINDS, "-h", "--help", "--version"):
            words = ["drafter", *words]  # as before there were other subcommands
        main(brief(get_parser()).parse_args(words))


if __name__ == "__main__":
    cli_main()
