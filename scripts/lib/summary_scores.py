"""ROUGE of fairseq-generate's output (SET.SYSTEM.out), as paper_table.py reads it.

rouge1, rouge2, rougeL and rougeLsum are F1 in percent, with Porter's stemmer, by the package
rouge-score. rougeL takes a text as one sequence; rougeLsum is the summary-level ROUGE-L of
ROUGE-1.5.5, over sentences, which here end at a full stop, exclamation or question mark before a
blank. Papers on CNN-DM report the latter as R-L.
"""

import pathlib
import re
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

from sacremoses import MosesDetokenizer
from text_files import read_lines
from translation_scores import Output, lines_of, write_each

from fairseq_specdec.io.atomic import PathLike
from fairseq_specdec.io.progress import erased_bar as bar

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
END = re.compile(r"([.!?]['\"\u2019\u201d)]*)\s+")


def make_scorer() -> Any:
    try:
        from rouge_score import rouge_scorer
    except ImportError as error:
        raise ValueError("ROUGE needs the package rouge-score: pip install rouge-score") from error
    return rouge_scorer.RougeScorer(list(KINDS), use_stemmer=True)


def by_sentence(text: str) -> str:
    """A sentence a line."""
    return END.sub(r"\1\n", text.strip())


def scores(
    output: Output, wanted: Sequence[str], to_text: Callable[[str], str], scorer: Any
) -> dict[str, Any]:
    """The means over all sentences of one system. ``wanted``: summaries of the test set, in its
    order. ``to_text``: from subwords to text."""
    numbers = sorted(output.hypotheses)
    chosen = dict(zip(numbers, lines_of(wanted, numbers, "the reference")))
    sums = dict.fromkeys(KINDS, 0.0)
    for number in bar(numbers, "ROUGE", unit="summary"):
        texts = chosen[number], to_text(output.hypotheses[number])
        rouge = scorer.score(*map(by_sentence, texts))
        for kind in KINDS:
            sums[kind] += rouge[kind].fmeasure
    means = {kind: 100 * sums[kind] / len(numbers) for kind in KINDS}
    how = "F1, Porter stemmer; rougeLsum: sentences end at . ! ?"
    variant = f"rouge-score {metadata.version('rouge-score')}, {how}"
    return {"sentences": len(numbers), **means, "rouge_variant": variant}


def reader(gpt2: Sequence[PathLike]) -> Callable[[str], str]:
    """From fairseq's output to text. ``gpt2``: encoder.json and vocab.bpe, where the output is
    numbers; otherwise it is English Moses tokens whose subwords are joined."""
    if gpt2:
        import gpt2_subwords  # brings in fairseq, whose import takes seconds

        return lambda line: gpt2_subwords.decode(line, *map(str, gpt2))
    detokenizer = MosesDetokenizer("en")
    return lambda line: str(detokenizer.detokenize(line.split()))


def write(
    outputs: Sequence[pathlib.Path], raw: PathLike, gpt2: Sequence[PathLike], json: pathlib.Path
) -> None:
    """Score outputs, called SET.SYSTEM.out, against the raw summaries of the test set."""
    scorer, wanted, to_text = make_scorer(), read_lines(raw), reader(gpt2)
    write_each(outputs, lambda _, output: scores(output, wanted, to_text, scorer), json)
