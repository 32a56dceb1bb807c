"""``python -m fairseq_specdec.scoring.cli gold.m2 output...``: M2 and ERRANT of corrections.

An output is text, tokenised as the gold file's sources are, a sentence a line; or, named *.out,
what fairseq-generate wrote. Scores of all outputs go to --json, by the file's name.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence

from fairseq_specdec.commands.own import brief, reporting
from fairseq_specdec.io.atomic import write_json

from . import errant, m2
from .m2_file import Sentence, read, read_lines

logger = logging.getLogger("fairseq_specdec.scoring")
OFFICIAL = re.compile(r"^(Precision|Recall|F_[\d.]+)\s*:\s*([\d.]+)\s*$", re.MULTILINE)


def read_outputs(path: str) -> List[str]:
    """Sentences of a text file, or the D lines of fairseq-generate's output in their order.

    Raises:
        ValueError: a sentence is missing in fairseq-generate's output, or it is not UTF-8.
    """
    lines = read_lines(path)
    if not path.endswith(".out"):
        return lines
    found = {}
    for line in lines:
        match = re.match(r"D-(\d+)\t[^\t]*\t(.*)", line)
        if match:
            found[int(match.group(1))] = match.group(2)
    missing = sorted(set(range(max(found, default=0) + 1)) - set(found))
    if missing:
        raise ValueError(f"{path}: holds no output of sentence {missing[0]}; decode again")
    return [found[number] for number in sorted(found)]


def official(command: str, outputs: Sequence[str], gold: str, beta: float) -> Dict[str, float]:
    """Precision, recall and F in percent by the official M2 scorer at the user's place.

    Raises:
        RuntimeError: it failed or printed something else.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "output.txt")
        with open(path, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(text + "\n" for text in outputs)
        try:
            done = subprocess.run(
                [*shlex.split(command), "--beta", str(beta), path, gold],
                capture_output=True,
                encoding="utf-8",
            )
        except OSError as error:
            raise RuntimeError(f"--m2scorer: {command} cannot be run ({error.strerror})") from error
    found = dict(OFFICIAL.findall(done.stdout))
    if done.returncode or len(found) != 3:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise RuntimeError(f"--m2scorer: {command} failed (it runs on Python 2): {said}")
    names = [("precision", "Precision"), ("recall", "Recall"), ("f", f"F_{beta:.1f}")]
    return {ours: 100 * float(found[theirs]) for ours, theirs in names}


def in_percent(counts: m2.Counts, beta: float) -> Dict[str, Any]:
    """Scores as the papers print them, with the counts."""
    return {
        "precision": 100 * counts.precision,
        "recall": 100 * counts.recall,
        "f": 100 * counts.f(beta),
        **counts._asdict(),
    }


def score_file(args: argparse.Namespace, path: str, sentences: List[Sentence]) -> Dict[str, Any]:
    """All scores of one output.

    Raises:
        ValueError, RuntimeError: as the scorers.
    """
    outputs = read_outputs(path)
    found: Dict[str, Any] = {"sentences": len(outputs), "beta": args.beta}
    try:
        if args.metric in ("m2", "both") and args.m2scorer:
            found["m2"] = dict(official(args.m2scorer, outputs, args.gold, args.beta))
            found["m2"]["scorer"] = f"official ({args.m2scorer})"
        elif args.metric in ("m2", "both"):
            found["m2"] = in_percent(m2.score(outputs, sentences, args.beta), args.beta)
            found["m2"]["scorer"] = "fairseq_specdec.scoring.m2"
        if args.metric in ("errant", "both"):
            counts = errant.score(outputs, sentences, args.gold, args.beta)
            found["errant"] = {**in_percent(counts, args.beta), "versions": errant.versions()}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return found


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_specdec.scoring.cli",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("gold", help="sources with the annotators' edits, in the M2 format")
    parser.add_argument("outputs", nargs="+", help="text, or *.out of fairseq-generate")
    parser.add_argument("--metric", choices=("m2", "errant", "both"), default="m2")
    parser.add_argument("--beta", type=float, default=0.5, help="weight of recall (default: 0.5)")
    parser.add_argument(
        "--m2scorer",
        default="",
        metavar="COMMAND",
        help="the official scorer, e.g. 'python2 /opt/m2scorer/scripts/m2scorer.py', in place of "
        "this project's",
    )
    parser.add_argument("--json", metavar="FILE", help="where all scores go")
    return parser


def main(args: argparse.Namespace) -> Dict[str, Any]:
    """Score every output; the scores by the file's name without its ending.

    Raises:
        ValueError, RuntimeError: as :func:`score_file`.
    """
    if not args.beta > 0:
        raise ValueError(f"--beta {args.beta}: expected more than 0")
    sentences = read(args.gold)
    if not sentences:
        raise ValueError(f"{args.gold}: holds no sentence")
    found = {}
    for path in args.outputs:
        name = os.path.splitext(os.path.basename(path))[0]
        found[name] = score_file(args, path, sentences)
        for metric in ("m2", "errant"):
            if metric in found[name]:
                one = found[name][metric]
                logger.info(
                    "%s: %s P %.2f R %.2f F%g %.2f",
                    name, metric, one["precision"], one["recall"], args.beta, one["f"],
                )  # fmt: skip
    if args.json:
        write_json(args.json, found)
    return found


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    """The command."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    words = list(sys.argv[1:] if arguments is None else arguments)
    with reporting("scoring", words):
        main(brief(get_parser(), "scoring").parse_args(words))


if __name__ == "__main__":
    cli_main()
