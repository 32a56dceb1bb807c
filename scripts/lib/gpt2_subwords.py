"""Text -> the numbers of GPT-2's subwords, which BART reads; fairseq does the work.

A line becomes its subwords' numbers, at most --max-subwords of them: BART has 1,024 positions, and
the rest of a long article is cut off.
"""

import functools
import logging
import multiprocessing
import pathlib
import sys
from typing import Any, Iterator, Optional, Sequence

from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from program import make_parser, reports
from specdec_io.progress import erased_bar as bar
from text_files import read_lines, write_lines

logger = logging.getLogger("gpt2_subwords")
CHUNK = 200


@functools.lru_cache(maxsize=1)
def encoder(encoder_json: str, vocab_bpe: str) -> Any:
    """The subwords of these two files, once a process."""
    return get_encoder(encoder_json, vocab_bpe)


def encode(line: str, encoder_json: str, vocab_bpe: str, most: int) -> str:
    """Numbers with blanks between, the first ``most`` of them."""
    return " ".join(map(str, encoder(encoder_json, vocab_bpe).encode(line)[:most]))


def decode(line: str, encoder_json: str, vocab_bpe: str) -> str:
    """The text of such numbers; what is no number of theirs (as <unk>) is left out."""
    known = encoder(encoder_json, vocab_bpe)
    numbers = (int(word) for word in line.split() if word.isdigit())
    text: str = known.decode([number for number in numbers if number in known.decoder])
    return text.strip()


@reports("gpt2_subwords")
def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command; returns its exit status."""
    parser = make_parser(__doc__)
    parser.add_argument("input", help="text, one article or summary a line")
    parser.add_argument("output", help="file to write")
    parser.add_argument("--encoder-json", required=True)
    parser.add_argument("--vocab-bpe", required=True)
    parser.add_argument("--max-subwords", type=int, default=1000, help="(default: 1000)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    options = parser.parse_args(arguments)
    lines = read_lines(options.input)
    work = functools.partial(
        encode,
        encoder_json=options.encoder_json,
        vocab_bpe=options.vocab_bpe,
        most=options.max_subwords,
    )
    work("")  # a file that cannot be read is found here, not in a worker

    def encoded() -> Iterator[str]:
        with multiprocessing.Pool(options.workers) as pool:
            yield from bar(pool.imap(work, lines, CHUNK), "subwords", total=len(lines), unit="line")

    write_lines(options.output, encoded())
    logger.info("%s: %d lines", pathlib.Path(options.output).name, len(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
