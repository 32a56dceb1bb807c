"""M2 and ERRANT of fairseq-generate's outputs, as paper_table.py reads them.

An output is called SET.SYSTEM.out; systems.tsv says which split a set decodes, and the folder
--gold holds SPLIT.m2. --segmenter names a command that turns raw text on its input, a sentence a
line, into words between blanks, for languages whose scores are of words.
"""

import logging
import pathlib
import shlex
import subprocess
import tempfile
from typing import Dict, List, Sequence

from gpt2_subwords import decode
from program import Options, argument, command
from recipe import System, read_table
from specdec_io.atomic import write_json
from text_files import write_lines

from fairseq_specdec.scoring import cli

logger = logging.getLogger("gec_scores")


def segment(command: str, lines: Sequence[str]) -> List[str]:
    """Words between blanks, by a command of the user's.

    Raises:
        ValueError: it fails, or answers with another number of lines.
    """
    text = "".join(line + "\n" for line in lines)
    try:
        done = subprocess.run(
            shlex.split(command), input=text, capture_output=True, encoding="utf-8"
        )
    except OSError as error:
        raise ValueError(f"SEGMENTER: {command} cannot be run ({error.strerror})") from error
    found = done.stdout.splitlines()
    if done.returncode or len(found) != len(lines):
        raise ValueError(
            f"SEGMENTER: {command} gave {len(found)} lines for {len(lines)}: {done.stderr[-300:]}"
        )
    return found


def flat(found: Dict[str, Dict[str, float]]) -> Dict[str, float]:
    """``{"m2": {"f": 1}}`` as ``{"m2_f": 1}``."""
    result: Dict[str, float] = {}
    for metric, scores in found.items():
        if isinstance(scores, dict):
            result.update({f"{metric}_{name}": value for name, value in scores.items()})
    return result


@command(
    argument("outputs", nargs="+", type=pathlib.Path, help="SET.SYSTEM.out"),
    argument("--systems", type=pathlib.Path, required=True, help="systems.tsv"),
    argument("--gold", type=pathlib.Path, required=True, help="folder of SPLIT.m2"),
    argument("--metric", choices=("m2", "errant", "both"), default="m2"),
    argument("--m2scorer", default="", help="command of the official scorer"),
    argument("--segmenter", default="", help="command from lines to words"),
    argument("--characters", action="store_true", help="outputs are characters: join them"),
    argument(
        "--gpt2", nargs=2, metavar=("ENCODER_JSON", "VOCAB_BPE"), help="outputs are its numbers"
    ),
    argument("--json", type=pathlib.Path, required=True, help="file to write"),
    errors=(RuntimeError,),
)
def main(options: Options) -> None:
    """Run the command."""
    words = ["--metric", options.metric, "--m2scorer", options.m2scorer]
    scores = {}
    split_of = {row.set: row.split for row in read_table(options.systems, System)}
    with tempfile.TemporaryDirectory() as folder:
        for path in options.outputs:
            name = path.name.split(".")[0]
            if name not in split_of:
                raise ValueError(f"{options.systems} names no set {name}, of {path}")
            lines = cli.read_outputs(str(path))
            if options.gpt2:
                lines = [" ".join(decode(line, *options.gpt2).split()) for line in lines]
            if options.segmenter:
                joined = [line.replace(" ", "") for line in lines] if options.characters else lines
                lines = segment(options.segmenter, joined)
            text = pathlib.Path(folder) / f"{path.stem}.txt"
            write_lines(text, lines)
            gold = options.gold / f"{split_of[name]}.m2"
            found = cli.main(cli.get_parser().parse_args([str(gold), str(text), *words]))
            scores[path.stem] = flat(found[path.stem])
    write_json(options.json, scores, make_folder=True)
