"""SARI and BLEU of fairseq-generate's output (SET.SYSTEM.out), as paper_table.py reads them.

Both on tokens, subwords joined, in lower case, against all references. SARI is the mean of the
sentences' (sari.py); its parts are there too. BLEU is sacreBLEU's without a tokeniser.
"""

import pathlib
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU
from text_files import read_lines
from translation_scores import Output, lines_of, write_each
from wikilarge.sari import corpus_sari


def scores(
    output: Output, sources: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """All scores of one system, in percent. ``references``: as many such lists of simplifications
    as there are."""
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


def write(
    outputs: Sequence[pathlib.Path],
    source: pathlib.Path,
    references: Sequence[pathlib.Path],
    json: pathlib.Path,
) -> None:
    """Score outputs, called SET.SYSTEM.out, against tokenised text."""
    sources, wanted = read_lines(source), [read_lines(path) for path in references]
    write_each(outputs, lambda _, output: scores(output, sources, wanted), json)
