"""Subwords of single bytes in the form of GPT-2's files, to try a recipe for BART with.

Writes encoder.json, vocab.bpe (no merges) and dict.txt, which fairseq's GPT-2 code reads.
"""

import json
import pathlib

from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from program import Options, argument, command
from specdec_io.atomic import replacing
from text_files import write_lines


@command(argument("folder", type=pathlib.Path, help="folder to write"))
def main(options: Options) -> None:
    """Run the command."""
    folder = options.folder
    numbers = {letter: number for number, letter in enumerate(bytes_to_unicode().values())}
    with replacing(folder / "encoder.json", make_folder=True) as stream:
        json.dump(numbers, stream)
    write_lines(folder / "vocab.bpe", ["#version: bytes"])
    write_lines(folder / "dict.txt", [f"{number} 1" for number in numbers.values()])
