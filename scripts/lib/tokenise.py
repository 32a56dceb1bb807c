"""Tokenise text exactly as fairseq's `--tokenizer moses` does by default."""

from sacremoses import MosesTokenizer
from specdec_io.atomic import PathLike
from specdec_io.progress import erased_bar as bar
from text_files import read_lines, write_lines


def tokenise(raw: PathLike, out: PathLike, language: str) -> None:
    """Tokenise a file of one sentence a line."""
    tokenizer = MosesTokenizer(language)
    lines = bar(read_lines(raw), "tokenising", unit="line")
    how = {"aggressive_dash_splits": True, "return_str": True, "escape": True}
    write_lines(out, (tokenizer.tokenize(line.strip(), **how) for line in lines))
