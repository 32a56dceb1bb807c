"""Tokenise text exactly as fairseq's `--tokenizer moses` does by default."""

from sacremoses import MosesTokenizer
from text_files import read_lines, write_lines

from fairseq_specdec.io.atomic import PathLike
from fairseq_specdec.io.progress import erased_bar as bar


def tokenise(raw: PathLike, out: PathLike, language: str) -> None:
    """Tokenise a file of one sentence a line."""
    tokenizer = MosesTokenizer(language)
    lines = bar(read_lines(raw), "tokenising", unit="line")
    how = {"aggressive_dash_splits": True, "return_str": True, "escape": True}
    write_lines(out, (tokenizer.tokenize(line.strip(), **how) for line in lines))
