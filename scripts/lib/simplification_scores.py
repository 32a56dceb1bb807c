"""SARI and BLEU of fairseq-generate's output (SET.SYSTEM.out), as paper_table.py reads them.

Both on tokens, subwords joined, in lower case, against all references. SARI is the mean of the
sentences' (fairseq_specdec.scoring.sari); its parts are there too. BLEU is sacreBLEU's without a
tokeniser.
"""

import json
import logging
import pathlib
from typing import Any, Dict, List, Sequence

from program import Options, argument, command
from sacrebleu.metrics import BLEU
from specdec_io.atomic import write_json
from text_files import read_lines
from translation_scores import Output, read_output

from fairseq_specdec.scoring.sari import corpus_sari

logger = logging.getLogger("simplification_scores")


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
    for name, lines in (("source", sources), *(("reference", lines) for lines in references)):
        if len(lines) <= numbers[-1]:
            raise ValueError(f"the {name} has no line {numbers[-1]}: not this test set's")
    texts = [output.hypotheses[n].lower() for n in numbers]
    sari = corpus_sari(
        [sources[n] for n in numbers], texts, [[lines[n] for lines in references] for n in numbers]
    )
    bleu = BLEU(lowercase=True, tokenize="none", force=True)
    wanted: List[List[str]] = [[lines[n] for n in numbers] for lines in references]
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
    found = {}
    sources = read_lines(options.source)
    references = [read_lines(path) for path in options.reference]
    for path in options.outputs:
        found[path.stem] = scores(read_output(path), sources, references)
        logger.info("%s: %s", path.stem, json.dumps(found[path.stem]))
    write_json(options.json, found, make_folder=True)
