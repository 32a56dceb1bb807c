"""Tokenise text exactly as fairseq's `--tokenizer moses` does by default."""

import argparse
import sys
from typing import Optional, Sequence

from sacremoses import MosesTokenizer
from specdec_io.progress import erased_bar as bar
from text_files import read_lines, write_lines


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lang", required=True, help="language of the text, e.g. en")
    parser.add_argument("input", help="raw text, one sentence a line")
    parser.add_argument("output", help="file to write")
    options = parser.parse_args(arguments)
    tokenizer = MosesTokenizer(options.lang)
    lines = read_lines(options.input)

    def tokenised():
        for line in bar(lines, "tokenising", unit="line"):
            yield tokenizer.tokenize(
                line.strip(), aggressive_dash_splits=True, return_str=True, escape=True
            )

    write_lines(options.output, tokenised())
    return 0


if __name__ == "__main__":
    sys.exit(main())
