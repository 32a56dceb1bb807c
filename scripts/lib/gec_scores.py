"""M2 and ERRANT of corrections: python scripts/lib/gec_scores.py gold.m2 output...

An output is text, tokenised as the gold file's sources are, a sentence a line; or, named *.out,
what fairseq-generate wrote. Scores of all outputs go to --json, by the file's name.
"""

import argparse
import logging
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gpt2_subwords
from recipe_file import systems
from scoring import errant, m2
from scoring.m2_file import read
from text_files import read_lines

from fairseq_specdec.io.atomic import PathLike, write_json

logger = logging.getLogger("gec_scores")
BETA = 0.5  # weight of recall


def read_outputs(path: pathlib.Path) -> list[str]:
    """Sentences of a text file, or the D lines of fairseq-generate's output in their order."""
    lines = read_lines(path)
    if path.suffix != ".out":
        return lines
    matches = [re.match(r"D-(\d+)\t[^\t]*\t(.*)", line) for line in lines]
    by_number = {int(match.group(1)): match.group(2) for match in matches if match}
    missing = sorted(set(range(max(by_number, default=0) + 1)) - set(by_number))
    if missing:
        raise ValueError(f"{path}: holds no output of sentence {missing[0]}; decode again")
    return [by_number[number] for number in sorted(by_number)]


def in_percent(counts: m2.Counts, beta: float) -> dict[str, float]:
    """Scores as the papers print them, with the counts."""
    percents = {"precision": counts.precision, "recall": counts.recall, "f": counts.f(beta)}
    return {**{name: 100 * value for name, value in percents.items()}, **counts._asdict()}


def scores(
    outputs: Sequence[str], gold: PathLike, metric: str = "m2", beta: float = BETA
) -> dict[str, Any]:
    """All scores of one output.

    Args:
        outputs: tokenised as the sources of ``gold``, in their order.
        gold: path of the M2 file.
        metric: ``m2``, ``errant`` or ``both``.
    """
    sentences = read(str(gold))
    if not sentences:
        raise ValueError(f"{gold}: holds no sentence")
    figures: dict[str, Any] = {}
    if metric in ("m2", "both"):
        figures["m2"] = in_percent(m2.score(outputs, sentences, beta), beta)
    if metric in ("errant", "both"):
        counts = errant.score(outputs, sentences, str(gold), beta)
        figures["errant"] = {**in_percent(counts, beta), "versions": errant.versions()}
    return figures


def write(
    outputs: Sequence[pathlib.Path],
    json: pathlib.Path,
    read: Callable[[pathlib.Path], list[str]],
    gold_of: Callable[[pathlib.Path], PathLike],
    **how: Any,
) -> None:
    """Score outputs, and write all scores by the file's name: ``m2_f``, ``errant_f`` and so on."""
    written: dict[str, dict[str, Any]] = {}
    for path in outputs:
        try:
            figures = scores(read(path), gold_of(path), **how)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        mine = written[path.stem] = {}
        for kind, one in figures.items():
            mine.update({f"{kind}_{name}": value for name, value in one.items()})
            logger.info("%s: %s P %.2f R %.2f F %.2f", path.stem, kind, *list(one.values())[:3])
    write_json(json, written, make_folder=True)


def segment(command: str, lines: Sequence[str]) -> list[str]:
    """Words between blanks, by a command of the user's."""
    text = "".join(line + "\n" for line in lines)
    try:
        done = subprocess.run(
            shlex.split(command), input=text, capture_output=True, encoding="utf-8"
        )
    except OSError as error:
        raise ValueError(f"SEGMENTER: {command} cannot be run ({error.strerror})") from error
    words = done.stdout.splitlines()
    if done.returncode or len(words) != len(lines):
        raise ValueError(
            f"SEGMENTER: {command} gave {len(words)} lines for {len(lines)}: {done.stderr[-300:]}"
        )
    return words


def write_sets(
    outputs: Sequence[pathlib.Path],
    json: pathlib.Path,
    recipe: pathlib.Path,
    gold: pathlib.Path,
    gpt2: Sequence[PathLike] = (),
    segmenter: str = "",
    characters: bool = False,
    **how: Any,
) -> None:
    """Score outputs called SET.SYSTEM.out.

    Args:
        gold: folder of SPLIT.m2.
        gpt2: encoder.json and vocab.bpe, where the outputs are GPT-2's numbers.
        segmenter: command from lines to words, for languages whose scores are of words.
        characters: the outputs are characters, which the segmenter takes joined.
    """
    split_of = {system.set: system.split for system in systems(recipe)}

    def gold_of(path: pathlib.Path) -> pathlib.Path:
        name = path.name.split(".")[0]
        if name not in split_of:
            raise ValueError(f"{recipe} names no set {name}")
        return gold / f"{split_of[name]}.m2"

    def words(path: pathlib.Path) -> list[str]:
        lines = read_outputs(path)
        if gpt2:
            files = list(map(str, gpt2))
            lines = [" ".join(gpt2_subwords.decode(line, *files).split()) for line in lines]
        if segmenter:
            joined = [line.replace(" ", "") for line in lines] if characters else lines
            lines = segment(segmenter, joined)
        return lines

    write(outputs, json, words, gold_of, **how)


def main(arguments: Sequence[str]) -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gold", help="sources with the annotators' edits, in the M2 format")
    parser.add_argument("outputs", nargs="+", type=pathlib.Path)
    parser.add_argument("--metric", choices=("m2", "errant", "both"), default="m2")
    parser.add_argument("--beta", type=float, default=BETA, help="weight of recall (default: 0.5)")
    parser.add_argument("--json", type=pathlib.Path, required=True, help="where all scores go")
    given = vars(parser.parse_args(arguments))
    gold, outputs, json = (given.pop(name) for name in ("gold", "outputs", "json"))
    if not given["beta"] > 0:
        parser.error(f"--beta {given['beta']}: expected more than 0")
    try:
        write(outputs, json, read_outputs, lambda _: gold, **given)
    except (OSError, ValueError) as error:
        raise SystemExit(f"gec_scores: error: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
