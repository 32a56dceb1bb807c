"""SARI and BLEU of fairseq-generate's output (SET.SYSTEM.out), as paper_table.py reads them.

Both on tokens, subwords joined, in lower case, against all references. SARI (Xu et al. 2016,
section 4) compares an output with its source and the references: n-grams that it rightly adds,
keeps (both F1) and deletes (precision), n = 1 to 4; what k of r references keep counts k / r. It is
the mean of the sentences', as the authors' program gives it. BLEU is sacreBLEU's without a
tokeniser.
"""

import pathlib
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU
from text_files import read_lines
from translation_scores import Output, lines_of, write_each

NGrams = Counter[tuple[str, ...]]


def ngrams(text: str, n: int) -> NGrams:
    """The n-grams of a tokenised sentence, and how often each occurs."""
    words = text.split()
    return Counter(zip(*(words[i:] for i in range(n))))


def f1(precision: float, recall: float) -> float:
    """Their harmonic mean, 0 where both are."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def share(good: NGrams, of: NGrams) -> float:
    """Mean over the n-grams of ``of`` of the share that is good, 0 where there are none."""
    return sum(count / of[gram] for gram, count in good.items()) / len(of) if of else 0.0


def sari(source: str, output: str, references: Sequence[str]) -> list[float]:
    """What a sentence rightly adds, keeps and deletes, each from 0 to 1; SARI is their mean."""
    orders = []
    for n in range(1, 5):
        ours, theirs, *wanted_by_each = (ngrams(text, n) for text in (source, output, *references))
        wanted = sum(wanted_by_each, Counter())
        before, after = (
            Counter({gram: count * len(references) for gram, count in grams.items()})
            for grams in (ours, theirs)
        )
        kept, to_keep, deleted = before & after, before & wanted, before - after
        good = kept & wanted
        added, to_add = ({*grams} - {*ours} for grams in (theirs, wanted))
        right = len(added & to_add)
        orders.append((
            f1(right / len(added), right / len(to_add)) if right else 0.0,
            f1(share(good, kept), share(good, to_keep)),
            share(deleted - wanted, deleted),
        ))  # fmt: skip
    return list(map(statistics.fmean, zip(*orders)))


def scores(
    output: Output, sources: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """All scores of one system, in percent. ``references``: as many such lists of simplifications
    as there are."""
    numbers = sorted(output.hypotheses)
    wanted = [[line.lower() for line in lines_of(lines, numbers, "the reference")]
              for lines in references]  # fmt: skip
    texts = [output.hypotheses[n].lower() for n in numbers]
    chosen = [line.lower() for line in lines_of(sources, numbers, "the source")]
    parts = zip(*(sari(*one) for one in zip(chosen, texts, zip(*wanted))))
    add, keep, delete = (100 * statistics.fmean(part) for part in parts)
    bleu = BLEU(lowercase=True, tokenize="none", force=True)
    return {
        "sentences": len(numbers),
        "sari": (add + keep + delete) / 3,
        "sari_add": add,
        "sari_keep": keep,
        "sari_delete": delete,
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
