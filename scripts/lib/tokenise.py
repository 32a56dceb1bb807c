"""Tokenise text exactly as fairseq's `--tokenizer moses` does by default."""

from program import Options, argument, command
from sacremoses import MosesTokenizer
from specdec_io.progress import erased_bar as bar
from text_files import read_lines, write_lines


@command(
    argument("--lang", required=True, help="language of the text, e.g. en"),
    argument("input", help="raw text, one sentence a line"),
    argument("output", help="file to write"),
)
def main(options: Options) -> None:
    """Run the command."""
    tokenizer = MosesTokenizer(options.lang)
    lines = bar(read_lines(options.input), "tokenising", unit="line")
    how = {"aggressive_dash_splits": True, "return_str": True, "escape": True}
    write_lines(options.output, (tokenizer.tokenize(line.strip(), **how) for line in lines))
