"""SARI, the score of text simplification (Xu et al. 2016, section 4).

An output is compared with its source and with several references: n-grams that it rightly adds,
keeps and deletes, n = 1 to 4. Adding and keeping count as F1, deleting as precision, because
deleting too much hurts more than deleting too little. References vote: what k of r references keep
counts k / r.

Xu, Napoles, Pavlick, Chen and Callison-Burch, "Optimizing Statistical Machine Translation for Text
Simplification", TACL 4. The values are those of the authors' own program.
"""

from collections import Counter
from collections import Counter as CounterOf
from collections.abc import Sequence
from typing import NamedTuple

MAX_N = 4
NGrams = CounterOf[str]


class Sari(NamedTuple):
    """A score in [0, 1] and its three parts; :attr:`score` is their mean."""

    add: float
    keep: float
    delete: float

    @property
    def score(self) -> float:
        return (self.add + self.keep + self.delete) / 3


def ngrams(text: str, n: int) -> NGrams:
    """The n-grams of a tokenised sentence, in lower case, and how often each occurs."""
    words = text.lower().split()
    return Counter(" ".join(words[i : i + n]) for i in range(len(words) - n + 1))


def times(counts: NGrams, factor: int) -> NGrams:
    """Every count times a number."""
    return Counter({gram: count * factor for gram, count in counts.items()})


def f1(precision: float, recall: float) -> float:
    """Their harmonic mean, 0 where both are."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def ratio(good: NGrams, of: NGrams) -> float:
    """Mean over the n-grams of ``of`` of the share that is good, 0 where there are none."""
    return sum(count / of[gram] for gram, count in good.items()) / len(of) if of else 0.0


def keep_score(source: NGrams, output: NGrams, references: NGrams, count: int) -> float:
    """F1 of the n-grams kept; ``references`` is the sum of all ``count`` references."""
    kept = times(source, count) & times(output, count)
    wanted = times(source, count) & references
    good = kept & references
    return f1(ratio(good, kept), ratio(good, wanted))


def delete_score(source: NGrams, output: NGrams, references: NGrams, count: int) -> float:
    """Precision of the n-grams deleted."""
    deleted = times(source, count) - times(output, count)
    return ratio(deleted - references, deleted)


def add_score(source: NGrams, output: NGrams, references: NGrams) -> float:
    """F1 of the n-grams added, each counted once."""
    added, wanted = set(output) - set(source), set(references) - set(source)
    good = len(added & wanted)
    return f1(good / len(added), good / len(wanted)) if good else 0.0


def sentence_sari(source: str, output: str, references: Sequence[str]) -> Sari:
    """SARI of one sentence."""
    if not references:
        raise ValueError("SARI needs at least one reference")
    orders: list[Sari] = []
    for n in range(1, MAX_N + 1):
        ours, theirs = ngrams(source, n), ngrams(output, n)
        known: NGrams = Counter()
        for reference in references:
            known.update(ngrams(reference, n))
        orders.append(
            Sari(
                add_score(ours, theirs, known),
                keep_score(ours, theirs, known, len(references)),
                delete_score(ours, theirs, known, len(references)),
            )
        )
    return mean(orders)


def mean(scores: Sequence[Sari]) -> Sari:
    """The mean of each part, and so of the score."""
    if not scores:
        raise ValueError("no sentence to score")
    return Sari(*(sum(part) / len(scores) for part in zip(*scores)))


def corpus_sari(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> Sari:
    """The mean of the sentences' scores, as the authors' program is used."""
    if not len(sources) == len(outputs) == len(references):
        raise ValueError(
            f"{len(outputs)} outputs for {len(sources)} sources and {len(references)} references"
        )
    return mean([sentence_sari(*one) for one in zip(sources, outputs, references)])
