"""Text -> the numbers of GPT-2's subwords, which BART reads; fairseq does the work.

A line becomes its subwords' numbers, at most --max-subwords of them: BART has 1,024 positions, and
the rest of a long article is cut off.
"""

import functools
import logging
import multiprocessing
import pathlib
from typing import Any, Iterator

from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from program import Options, argument, command
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


@command(
    argument("input", help="text, one article or summary a line"),
    argument("output", help="file to write"),
    argument("--encoder-json", required=True),
    argument("--vocab-bpe", required=True),
    argument("--max-subwords", type=int, default=1000, help="(default: 1000)"),
    argument("--workers", type=int, default=1, help="processes (default: 1)"),
)
def main(options: Options) -> None:
    """Run the command."""
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
