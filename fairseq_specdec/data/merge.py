"""From the teacher's outputs to a corpus: order restored, drops counted."""

import collections
import logging
import os
from typing import Any

import numpy as np
import torch
from fairseq.data import indexed_dataset

from ..drafting.vocabulary import write_list
from ..io.progress import bar
from .part import Part
from .teacher import Hypotheses

logger = logging.getLogger(__name__)
# Why a sentence is not in the distilled corpus, as it follows "N".
REASONS = {
    "source_too_long": "sources longer than the teacher can read",
    "exceeds_max_tokens": "longer than --max-tokens",
    "empty_source": "empty sources",
    "no_hypothesis": "without an output",
    "empty_target": "with an empty output",
    "length_limit": "outputs cut off at the length limit (--max-len-a, --max-len-b)",
}


def judge(hypotheses: Hypotheses, source: np.ndarray, on_length_limit: str) -> np.ndarray:
    """Why each sentence is kept or dropped; the first reason that applies counts.

    Args:
        hypotheses: n sentences in any order.
        source: int [n], tokens of the sources with </s>, in the same order.
        on_length_limit: ``drop`` or ``keep`` outputs cut off at the length limit.

    Returns:
        str [n]: names in ``REASONS``; "" is kept.
    """
    reasons = {
        "empty_source": source <= 1,
        "no_hypothesis": hypotheses.lengths == 0,
        "empty_target": hypotheses.lengths == 1,
        "length_limit": hypotheses.at_limit & (on_length_limit == "drop"),
    }
    return np.select(list(reasons.values()), list(reasons), default="")


def write_corpus(part: Part, hypotheses: Hypotheses, folder: str) -> dict[str, Any]:
    """Write the distilled corpus of a pair of languages, as fairseq-preprocess does.

    Args:
        hypotheses: of all planned sentences, in any order.

    Returns:
        how many sentences were chosen, kept and dropped, and why.
    """
    corpus, plan = part.corpus, part.plan
    source = corpus.read(corpus.source)
    indices = hypotheses.indices.tolist()
    lengths = np.array([len(source[index]) for index in indices])
    why = judge(hypotheses, lengths, part.args.on_length_limit)
    rows = np.argsort(hypotheses.indices)
    rows = rows[why[rows] == ""]
    ends = np.cumsum(hypotheses.lengths, dtype=np.int64)
    begins = ends - hypotheses.lengths
    for language, dictionary, sentences in (
        (corpus.source, corpus.source_words, (source[indices[row]] for row in rows)),
        (corpus.target, corpus.target_words,
         (torch.from_numpy(hypotheses.tokens[begins[row] : ends[row]]) for row in rows)),
    ):  # fmt: skip
        stem = os.path.join(folder, corpus.prefix(language))
        builder = indexed_dataset.make_builder(stem + ".bin", "mmap", len(dictionary))
        for sentence in bar(sentences, f"writing {language}", total=len(rows), unit="sentence"):
            builder.add_item(sentence)
        builder.finalize(stem + ".idx")
    corpus.copy_untouched(folder)
    listed = os.path.join(folder, f"vocabulary.{corpus.source}-{corpus.target}.txt")
    used = hypotheses.tokens[np.repeat(why == "", hypotheses.lengths)]
    write_list(listed, corpus.target_words, collections.Counter(used.tolist()))

    found = {index: reason for index, reason in zip(indices, why.tolist()) if reason}
    dropped = {**plan.dropped, **found}
    name = f"dropped.{part.pair}.tsv" if part.pair else "dropped.tsv"
    with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
        stream.write("index\treason\n")
        stream.writelines(f"{index}\t{dropped[index]}\n" for index in sorted(dropped))
    chosen, by_reason = len(indices) + len(plan.dropped), collections.Counter(dropped.values())
    counts = {
        "corpus": plan.total, "chosen": chosen, "kept": len(rows), "dropped": len(dropped),
        "reasons": {reason: by_reason[reason] for reason in REASONS},
    }  # fmt: skip
    logger.info("%d of %d pairs kept, %s (%s)", len(rows), chosen, losses(counts), name)
    return counts


def losses(counts: dict[str, Any]) -> str:
    """How many pairs were dropped, and why, the commonest reason first; "none dropped"."""
    lost = counts["dropped"]
    if not lost:
        return "none dropped"
    reasons = sorted(counts["reasons"].items(), key=lambda reason: -reason[1])
    listed = "; ".join(f"{count:,} {REASONS[name]}" for name, count in reasons if count)
    return f"{lost:,} dropped ({100 * lost / counts['chosen']:.1f}%): {listed}"
