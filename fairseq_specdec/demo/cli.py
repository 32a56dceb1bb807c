"""``specdec-demo``: type a sentence in the browser and watch strategies race on it.

The page is served on 127.0.0.1 only, for this machine. Strategies share one verifier in memory and
decode one after another, so that each is timed alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import re
import sys
from typing import Any, Dict, List, Optional, Sequence

import fairseq_specdec
from fairseq_specdec.commands.own import brief, reporting
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.hub.loading import DEMOS, DTYPES
from fairseq_specdec.io.flag_values import AT_LEAST_0, InRange

from .racers import Pair, load_racers, warmed
from .server import ADDRESS, DemoServer

PORT = 8642
REPEATS = 3
# Decoding flags of fairseq-generate that are flags here too, with what they are made of.
DECODING: Dict[str, Any] = {
    "block_size": int,
    "draft_confidence": float,
    "top_beta": int,
    "tau": float,
    "regret_budget": float,
    "alpha_fb": float,
    "alpha_rb": float,
}


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="specdec-demo", description=__doc__)
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        help=f"port on {ADDRESS}, from 0 to 65535; 0 picks a free one (default: %(default)s)",
    )
    _add_model_flags(parser)
    _add_race_flags(parser)
    _add_decoding_flags(parser)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {fairseq_specdec.__version__}"
    )
    return parser


def _add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Checkpoints, dictionaries, text, and where to run."""
    which = parser.add_argument_group("models")
    which.add_argument(
        "--pair",
        choices=sorted(DEMOS),
        help="a demo pair (default: demo_ende, without --path)",
    )
    which.add_argument(
        "--path",
        help="the verifier: a checkpoint, or several joined by a colon for an ensemble "
        "(default: that of --pair)",
    )
    which.add_argument(
        "--drafter-path",
        help="block drafter of gad, gad++ and specdec (default: drafter.pt of the pair)",
    )
    which.add_argument(
        "--small-path", help="small Transformer of sps and bild (default: none, they do not race)"
    )
    which.add_argument(
        "--data",
        help="folder of the dictionaries (default: beside --path, or where it was trained)",
    )
    _add_text_flags(which)
    which.add_argument("--device", help="cpu, cuda, cuda:1 (default: the GPU where there is one)")
    which.add_argument(
        "--dtype", choices=sorted(DTYPES), default="fp32", help="number format (default: fp32)"
    )


def _add_text_flags(which: Any) -> None:
    """Languages, tokeniser and subwords, in the group of the models."""
    for flag in ("--source-lang", "--target-lang"):
        which.add_argument(flag, help="language (default: the checkpoint's)")
    which.add_argument(
        "--tokenizer",
        default="auto",
        help="fairseq's --tokenizer, or none (default: the checkpoint's)",
    )
    which.add_argument(
        "--bpe", default="auto", help="fairseq's --bpe, or none (default: the checkpoint's)"
    )
    which.add_argument(
        "--bpe-codes",
        help="file of the subword model: subword-nmt's codes, or sentencepiece's *.model or *.spm "
        "(default: looked for beside --path and in --data)",
    )


def _add_race_flags(parser: argparse.ArgumentParser) -> None:
    """Strategies, and how often each is timed."""
    racing = parser.add_argument_group("race")
    racing.add_argument(
        "--strategies",
        nargs="+",
        metavar="STRATEGY",
        help=f"who races: {', '.join(STRATEGIES)} (default: greedy, and what the models allow: "
        "gad and gad++ with a block drafter, sps and bild with --small-path; iad if there is "
        "neither and the dictionaries are joined)",
    )
    racing.add_argument(
        "--repeats",
        action=InRange,
        values=AT_LEAST_0,
        default=REPEATS,
        help="timed runs of each strategy in a race, %(values)s; the page shows their median "
        "(default: %(default)s)",
    )


def _add_decoding_flags(parser: argparse.ArgumentParser) -> None:
    """Those of ``DECODING``, with the task's help texts."""
    decoding = parser.add_argument_group(
        "decoding", "Each goes to the strategies that use it, as with fairseq-generate."
    )
    fields = {field.name: field for field in dataclasses.fields(TranslationSpecDecConfig)}
    for name, kind in DECODING.items():
        words = str(fields[name].metadata["help"])
        if "default" not in words and fields[name].default is not None:
            words += f" (default: {fields[name].default})"
        decoding.add_argument("--" + name.replace("_", "-"), type=kind, help=words)


def at_the_prompt(message: str) -> str:
    """An error of the Python interface, with flags in place of its arguments."""
    message = re.sub(r"^verifier\b", "--path", message)
    words = "data|source_lang|target_lang|tokenizer|bpe|bpe_codes|device|dtype|block_size"
    words += "|draft_confidence|top_beta|tau|regret_budget|alpha_fb|alpha_rb"

    def flag(found: Any) -> str:
        return "--" + found.group(1).replace("_", "-")

    message = re.sub(rf"^({words})\b", flag, message)
    message = message.replace("bpe=None", "--bpe none")
    return re.sub(rf"\b({words})=\.\.\.", flag, message)


def start(words: Sequence[str]) -> DemoServer:
    """A server with its models loaded, ready for ``serve_forever``.

    Args:
        words: the command line.

    Raises:
        ValueError, FileNotFoundError: a flag or file that makes no sense, by name.
    """
    args = brief(get_parser()).parse_args(list(words))
    if args.pair is not None and args.path is not None:
        raise ValueError("--pair and --path: choose one of them")
    pair = _pair(args)
    # The port first: if it is taken, that shows before models are loaded.
    server = DemoServer(args.port, args.repeats)
    try:
        racers = load_racers(
            pair, args.strategies, {name: getattr(args, name) for name in DECODING}
        )
        warmed(racers.translators, racers.examples)
        server.enter(racers)
    except BaseException:
        server.server_close()
        raise
    return server


def _pair(args: argparse.Namespace) -> Pair:
    """The models that the flags name."""
    path = args.path if args.path is not None else args.pair or "demo_ende"
    return Pair(
        path,
        args.drafter_path,
        args.small_path,
        args.data,
        args.source_lang,
        args.target_lang,
        None if args.tokenizer == "none" else args.tokenizer,
        None if args.bpe == "none" else args.bpe,
        args.bpe_codes,
        args.device,
        args.dtype,
    )


def cli_main(arguments: Optional[List[str]] = None) -> None:
    """The console script ``specdec-demo``."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    words = list(sys.argv[1:] if arguments is None else arguments)
    with reporting("specdec-demo", words, reworded=at_the_prompt):
        server = start(words)
    assert server.racers is not None
    names = ", ".join(server.racers.translators)
    sys.stdout.write(f"{names} race at {server.url} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    finally:
        server.server_close()


if __name__ == "__main__":
    cli_main()
