"""M2 of corrections: python scripts/lib/gec_scores.py gold.m2 output... --json FILE

An output is text, tokenised as the gold file's sources are, a sentence a line; or, named *.out,
what fairseq-generate wrote. Scores of all outputs go to --json, by the file's name.
"""

import argparse
import logging
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence

import gpt2_subwords
import m2
from recipe_file import systems
from text_files import read_lines
from translation_scores import read_output

from fairseq_specdec.io.atomic import PathLike, write_json

logger = logging.getLogger("gec_scores")


def read_outputs(path: pathlib.Path) -> list[str]:
    """Sentences of a text file, or of fairseq-generate's output in their order."""
    if path.suffix != ".out":
        return read_lines(path)
    return [text for _, text in sorted(read_output(path).hypotheses.items())]


def write(
    outputs: Sequence[pathlib.Path],
    json: pathlib.Path,
    gold_of: Callable[[pathlib.Path], PathLike],
    change: Callable[[list[str]], list[str]] = list,
) -> None:
    """Score outputs, and write all scores by the file's name: precision, recall and F0.5 in
    percent, and the counts. ``change``: from the lines of an output to those that are scored."""
    written = {}
    for path in outputs:
        try:
            sentences = m2.read(str(gold_of(path)))
            if not sentences:
                raise ValueError(f"{gold_of(path)}: holds no sentence")
            counts = m2.score(change(read_outputs(path)), sentences)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        shares = {"precision": counts.precision, "recall": counts.recall, "f": counts.f}
        figures = {**{name: 100 * value for name, value in shares.items()}, **counts._asdict()}
        written[path.stem] = {f"m2_{name}": value for name, value in figures.items()}
        logger.info("%s: %s", path.stem, written[path.stem])
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
) -> None:
    """Score outputs called SET.SYSTEM.out.

    Args:
        gold: folder of SPLIT.m2.
        gpt2: encoder.json and vocab.bpe, where the outputs are GPT-2's numbers.
        segmenter: command from lines to words, for languages whose scores are of words.
        characters: the outputs are characters, which the segmenter takes joined.
    """
    split_of = {system.set: system.split for system in systems(recipe)}

    def words(lines: list[str]) -> list[str]:
        if gpt2:
            files = list(map(str, gpt2))
            lines = [" ".join(gpt2_subwords.decode(line, *files).split()) for line in lines]
        if segmenter:
            joined = [line.replace(" ", "") for line in lines] if characters else lines
            lines = segment(segmenter, joined)
        return lines

    write(outputs, json, lambda path: gold / f"{split_of[path.name.split('.')[0]]}.m2", words)


def main(arguments: Sequence[str]) -> None:
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gold", help="sources with the annotators' edits, in the M2 format")
    parser.add_argument("outputs", nargs="+", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, required=True, help="where all scores go")
    args = parser.parse_args(arguments)
    try:
        write(args.outputs, args.json, lambda _: args.gold)
    except (OSError, ValueError) as error:
        raise SystemExit(f"gec_scores: error: {error}") from error


if __name__ == "__main__":
    main(sys.argv[1:])
