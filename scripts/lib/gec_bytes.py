"""Subwords of single bytes in the form of GPT-2's files, to try a recipe for BART with.

Writes encoder.json, vocab.bpe (no merges) and dict.txt, which fairseq's GPT-2 code reads.
"""

import json
import pathlib
import sys
from typing import Optional, Sequence

from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from specdec_io.atomic import replacing
from text_files import write_lines


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Write the files into the folder that is named; returns the exit status."""
    (name,) = sys.argv[1:] if arguments is None else arguments
    folder = pathlib.Path(name)
    numbers = {letter: number for number, letter in enumerate(bytes_to_unicode().values())}
    with replacing(folder / "encoder.json", make_folder=True) as stream:
        json.dump(numbers, stream)
    write_lines(folder / "vocab.bpe", ["#version: bytes"])
    write_lines(folder / "dict.txt", [f"{number} 1" for number in numbers.values()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
