"""From the teacher's outputs to a corpus: order restored, drops counted."""

import collections
import logging
import os
from typing import Any

import numpy as np
import torch
from fairseq.data import indexed_dataset

from ..io.progress import bar
from .part import Part
from .plan import REASONS
from .teacher import Hypotheses

logger = logging.getLogger(__name__)
# From this share of dropped pairs on it is a warning.
MANY = 0.05


def judge(
    hypotheses: Hypotheses, source: np.ndarray, on_length_limit: str, max_length_ratio: float | None
) -> np.ndarray:
    """Why each sentence is kept or dropped; the first reason that applies counts.

    Args:
        hypotheses: n sentences in any order.
        source: int [n], tokens of the sources with </s>, in the same order.
        on_length_limit: ``drop`` or ``keep`` outputs cut off at the length limit.
        max_length_ratio: longer side over shorter side, without </s>; None for any.

    Returns:
        str [n]: names in ``REASONS``; "" is kept.
    """
    lengths = hypotheses.lengths.astype(np.int64)
    spoken = lengths > 0
    source, target = np.maximum(source - 1, 0), np.maximum(lengths - 1, 0)
    most = np.inf if max_length_ratio is None else max_length_ratio
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    reasons = {
        "empty_source": source == 0,
        "no_hypothesis": ~spoken,
        "empty_target": target == 0,
        "length_limit": hypotheses.at_limit & (on_length_limit == "drop"),
        "length_ratio": longer > most * np.maximum(shorter, 1),
    }
    return np.select(list(reasons.values()), list(reasons), default="")


def write_corpus(
    part: Part, hypotheses: Hypotheses, filters: dict[str, Any], folder: str, destination: str
) -> dict[str, Any]:
    """Write the distilled corpus of a pair of languages into a folder.

    Args:
        hypotheses: of all planned sentences, in any order.
        filters: of ``judge``.
        destination: what the folder will be, for the log.

    Returns:
        ``counts`` and ``tokens`` of the report.
    """
    corpus, plan = part.corpus, part.plan
    name = f"dropped.{part.pair}.tsv" if part.pair else "dropped.tsv"
    source = corpus.read(corpus.source, part.task.source_dictionary)
    lengths = np.array([len(source[index]) for index in hypotheses.indices.tolist()])
    why = judge(hypotheses, lengths, **filters)
    tokens = _write_pairs(part, source, hypotheses, why == "", folder)
    found = zip(hypotheses.indices.tolist(), why.tolist())
    dropped = {**plan.dropped, **{index: reason for index, reason in found if reason}}
    with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
        stream.write("index\treason\n")
        stream.writelines(f"{index}\t{dropped[index]}\n" for index in sorted(dropped))
    corpus.copy_untouched(folder)
    chosen, by_reason = len(lengths) + len(plan.dropped), collections.Counter(dropped.values())
    counts = {
        "corpus": plan.total, "chosen": chosen, "kept": chosen - len(dropped),
        "dropped": len(dropped), "reasons": {reason: by_reason[reason] for reason in REASONS},
    }  # fmt: skip
    logger.log(
        # the corpus may be another one
        logging.WARNING if len(dropped) > MANY * chosen else logging.INFO,
        "%s: %s of %s sentence pairs kept, %s", os.path.join(destination, name),
        f"{counts['kept']:,}", f"{chosen:,}", losses(counts),
    )  # fmt: skip
    return {"counts": counts, "tokens": tokens}


def _write_pairs(
    part: Part, source: Any, hypotheses: Hypotheses, keep: np.ndarray, folder: str
) -> dict[str, int]:
    """Write both sides as fairseq-preprocess does; return the tokens written, with </s>."""
    corpus, task = part.corpus, part.task
    ends = np.cumsum(hypotheses.lengths, dtype=np.int64)
    rows = np.argsort(hypotheses.indices)
    rows = rows[keep[rows]]
    outputs = (hypotheses.tokens[ends[row] - hypotheses.lengths[row] : ends[row]] for row in rows)
    inputs = (source[index] for index in hypotheses.indices[rows].tolist())
    tokens = {}
    for language, dictionary, sentences in (
        (corpus.source, task.source_dictionary, inputs),
        (corpus.target, task.target_dictionary, map(torch.from_numpy, outputs)),
    ):
        stem = os.path.join(folder, corpus.prefix(language))
        builder = indexed_dataset.make_builder(stem + ".bin", "mmap", len(dictionary))
        tokens[language] = 0
        for sentence in bar(sentences, f"writing {language}", total=len(rows), unit="sentence"):
            builder.add_item(sentence)
            tokens[language] += len(sentence)
        builder.finalize(stem + ".idx")
    return tokens


def losses(counts: dict[str, Any]) -> str:
    """How many pairs were dropped, and why, the commonest reason first; "none dropped"."""
    lost = counts["dropped"]
    if not lost:
        return "none dropped"
    reasons = sorted(counts["reasons"].items(), key=lambda reason: -reason[1])
    listed = "; ".join(f"{count:,} {REASONS[name]}" for name, count in reasons if count)
    return f"{lost:,} dropped ({100 * lost / counts['chosen']:.1f}%): {listed}"
