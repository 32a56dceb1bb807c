"""Text -> the numbers of GPT-2's subwords, which BART reads; fairseq does the work.

A line becomes its subwords' numbers, at most ``most`` of them: BART has 1,024 positions, and
the rest of a long article is cut off.
"""

import functools
import multiprocessing
from collections.abc import Iterator
from typing import Any

from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from text_files import read_lines, write_lines

from fairseq_specdec.io.atomic import PathLike
from fairseq_specdec.io.progress import erased_bar as bar

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


def write(
    text: PathLike,
    out: PathLike,
    encoder_json: PathLike,
    vocab_bpe: PathLike,
    most: int = 1000,
    workers: int = 1,
) -> None:
    """Write the numbers of a text, by so many processes."""
    lines = read_lines(text)
    files = {"encoder_json": str(encoder_json), "vocab_bpe": str(vocab_bpe)}
    work = functools.partial(encode, most=most, **files)
    work("")  # a file that cannot be read is found here, not in a worker

    def encoded() -> Iterator[str]:
        with multiprocessing.Pool(workers) as pool:
            yield from bar(pool.imap(work, lines, CHUNK), "subwords", total=len(lines), unit="line")

    write_lines(out, encoded())
