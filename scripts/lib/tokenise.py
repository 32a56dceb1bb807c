"""Tokenise text exactly as fairseq's `--tokenizer moses` does by default."""

import argparse
import sys
from typing import Optional, Sequence

from atomic import read_lines, write_lines
from progress import Progress
from sacremoses import MosesTokenizer

EVERY = 5000


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lang", required=True, help="language of the text, e.g. en")
    parser.add_argument("input", help="raw text, one sentence a line")
    parser.add_argument("output", help="file to write")
    options = parser.parse_args(arguments)
    tokenizer = MosesTokenizer(options.lang)
    progress = Progress()
    lines = read_lines(options.input)

    def tokenised():
        for number, line in enumerate(lines):
            if number % EVERY == 0:
                progress.update(f"tokenising {options.input}: {100 * number // len(lines)}%")
            yield tokenizer.tokenize(
                line.strip(), aggressive_dash_splits=True, return_str=True, escape=True
            )

    write_lines(options.output, tokenised())
    progress.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
