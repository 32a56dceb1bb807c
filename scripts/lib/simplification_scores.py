"""SARI and BLEU of fairseq-generate's output (SET.SYSTEM.out), as paper_table.py reads them.

Both on tokens, subwords joined, in lower case, against all references. SARI is the mean of the
sentences' (fairseq_specdec.scoring.sari); its parts are there too. BLEU is sacreBLEU's without a
tokeniser.
"""

import pathlib
from typing import Any, Dict, Sequence

from program import Options, argument, command
from sacrebleu.metrics import BLEU
from text_files import read_lines
from translation_scores import Output, lines_of, score_each

from fairseq_specdec.scoring.sari import corpus_sari


def scores(
    output: Output, sources: Sequence[str], references: Sequence[Sequence[str]]
) -> Dict[str, Any]:
    """All scores of one system, in percent.

    Args:
        output: of fairseq-generate.
        sources: of the test set, in its order.
        references: as many such lists of simplifications as there are.

    Raises:
        ValueError: the test set has fewer sentences than the output.
    """
    numbers = sorted(output.hypotheses)
    wanted = [lines_of(lines, numbers, "the reference") for lines in references]
    texts = [output.hypotheses[n].lower() for n in numbers]
    chosen = lines_of(sources, numbers, "the source")
    sari = corpus_sari(chosen, texts, list(map(list, zip(*wanted))))
    bleu = BLEU(lowercase=True, tokenize="none", force=True)
    return {
        "sentences": len(numbers),
        "sari": 100 * sari.score,
        "sari_add": 100 * sari.add,
        "sari_keep": 100 * sari.keep,
        "sari_delete": 100 * sari.delete,
        "bleu": float(bleu.corpus_score(texts, wanted).score),
        "bleu_signature": str(bleu.get_signature()),
    }


@command(
    argument("outputs", nargs="+", type=pathlib.Path, help="SET.SYSTEM.out"),
    argument("--source", type=pathlib.Path, required=True, help="tokenised sources"),
    argument(
        "--reference", type=pathlib.Path, action="append", required=True, help="tokenised; repeat"
    ),
    argument("--json", type=pathlib.Path, required=True, help="file to write"),
)
def main(options: Options) -> None:
    """Run the command."""
    sources = read_lines(options.source)
    references = [read_lines(path) for path in options.reference]
    score_each(options, lambda path, output: scores(output, sources, references))
