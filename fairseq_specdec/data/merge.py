"""From finished chunks to a corpus: order restored, drops counted."""

import logging
import os
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import indexed_dataset

from fairseq_specdec.errors import UsageError

from ..io.atomic import sync
from ..io.progress import bar
from .chunks import DistilledChunks, Hypotheses
from .corpus import Corpus, Sentences
from .plan import CODE, REASONS, Plan, missing_and_doubled

logger = logging.getLogger(__name__)
REPORT = "distill.json"
DROPPED = "dropped.tsv"
# From this share of dropped pairs on it is a warning.
MANY = 0.05
# REASONS, as they follow "N".
WORDS = {
    "source_too_long": "sources longer than the teacher can read",
    "exceeds_max_tokens": "longer than --max-tokens",
    "empty_source": "empty sources",
    "no_hypothesis": "without an output",
    "empty_target": "with an empty output",
    "length_limit": "outputs cut off at the length limit (--max-len-a, --max-len-b)",
    "length_ratio": "outputs of another length than --max-length-ratio allows",
}


class Filters(NamedTuple):
    """Which of the teacher's outputs are kept."""

    on_length_limit: str = "drop"  # or "keep": outputs cut off at the length limit
    max_length_ratio: float | None = None  # longer side over shorter side, without </s>


def judge(
    hypotheses: Hypotheses, source_lengths: np.ndarray, filters: Filters, eos: int
) -> np.ndarray:
    """Why each sentence is kept or dropped; the first reason that applies counts.

    Args:
        hypotheses: n sentences in any order.
        source_lengths: int [n], tokens with </s>, in the same order.

    Returns:
        int8 [n]: positions in ``REASONS``; 0 is kept.
    """
    lengths = hypotheses.lengths.astype(np.int64)
    ends = np.cumsum(lengths)
    spoken = lengths > 0
    if not (hypotheses.tokens[ends[spoken] - 1] == eos).all():
        raise ValueError("the generator returned a hypothesis that does not end in </s>")
    source = np.maximum(source_lengths.astype(np.int64) - 1, 0)
    target = np.maximum(lengths - 1, 0)
    codes = np.zeros(len(lengths), dtype=np.int8)
    # From the last to the first, so that the first in REASONS wins.
    if filters.max_length_ratio is not None:
        longer, shorter = np.maximum(source, target), np.minimum(source, target)
        codes[longer > filters.max_length_ratio * shorter] = CODE["length_ratio"]
    if filters.on_length_limit == "drop":
        codes[hypotheses.at_limit] = CODE["length_limit"]
    codes[target == 0] = CODE["empty_target"]
    codes[~spoken] = CODE["no_hypothesis"]
    codes[source == 0] = CODE["empty_source"]
    return codes


def gather(chunks: DistilledChunks, plan: Plan) -> tuple[Hypotheses, float]:
    """All chunks as one, in the order of the corpus, and the seconds that they took together."""
    missing = chunks.unfinished()
    if missing:
        raise UsageError(
            f"{len(missing)} of {len(plan.chunk_ends)} chunks are not finished (first",
            f"{missing[:5]})",
            "run every shard of the same command again without --merge, finished chunks are "
            "skipped",
        )
    lengths = np.zeros(plan.total, dtype=np.int32)
    at_limit = np.zeros(plan.total, dtype=bool)
    seen, seconds, pieces = [], 0.0, []
    for chunk in bar(range(len(plan.chunk_ends)), "gathering", unit="chunk"):
        piece, spent = chunks.read(chunk)
        lengths[piece.indices], at_limit[piece.indices] = piece.lengths, piece.at_limit
        seen.append(piece.indices)
        pieces.append(piece)
        seconds += spent
    lost, extra = missing_and_doubled(np.concatenate(seen), plan.order)
    if len(lost) or len(extra):
        raise UsageError(
            chunks.directory,
            f"its chunks lack {len(lost)} planned sentences and hold {len(extra)} twice or "
            "unplanned",
            "delete the directory and distil again",
        )
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    tokens = np.zeros(int(lengths.sum()), dtype=np.int32)
    for piece in pieces:
        begin = 0
        for index, length in zip(piece.indices.tolist(), piece.lengths.tolist()):
            tokens[starts[index] : starts[index] + length] = piece.tokens[begin : begin + length]
            begin += length
    order = np.sort(plan.order)
    return Hypotheses(order, lengths[order], at_limit[order], tokens), seconds


def merge(
    corpus: Corpus,
    task: Any,
    dataset_impl: Any,
    chunks: DistilledChunks,
    folder: str,
    filters: Filters,
) -> dict[str, Any]:
    """Write the distilled corpus into a folder.

    Args:
        task: holds ``source_dictionary`` and ``target_dictionary``.
        dataset_impl: fairseq's ``--dataset-impl``, None to infer it.
        folder: an empty one.
        filters: which outputs are kept.

    Returns:
        ``counts``, ``tokens`` and ``decoding`` of the report.
    """
    plan = chunks.plan()
    hypotheses, seconds = gather(chunks, plan)
    source = corpus.read(corpus.source, task.source_dictionary, dataset_impl)
    if len(source) != plan.total:
        raise UsageError(
            corpus.directory,
            f"holds {len(source)} sentences, the task's dataset {plan.total}",
            "leave out flags that repeat or join splits (--upsample-primary)",
        )
    source_lengths = np.array([len(source[i]) for i in hypotheses.indices.tolist()], dtype=np.int64)
    codes = judge(hypotheses, source_lengths, filters, task.target_dictionary.eos())
    tokens = _write_pair(corpus, task, source, hypotheses, codes == 0, folder)
    _write_dropped(os.path.join(folder, DROPPED), plan, hypotheses.indices, codes)
    corpus.copy_untouched(folder)
    return {
        "counts": _count(plan, codes),
        "tokens": tokens,
        "decoding": {
            "seconds_of_all_processes": round(seconds, 3),
            "sentences_per_second_and_process": round(len(codes) / max(seconds, 1e-9), 3),
        },
    }


def _count(plan: Plan, codes: np.ndarray) -> dict[str, Any]:
    both = np.bincount(np.concatenate([codes, plan.left_out_codes]), minlength=len(REASONS))
    chosen = len(codes) + len(plan.left_out)
    dropped = {reason: int(both[code]) for reason, code in CODE.items() if code}
    kept, lost = int(both[0]), sum(dropped.values())
    if kept + lost != chosen:
        raise ValueError(f"{chosen} sentences chosen, but {kept} kept and {lost} dropped")
    return {
        "corpus": plan.total,
        "chosen": chosen,
        "kept": kept,
        "dropped": lost,
        "reasons": dropped,
    }


def losses(counts: dict[str, Any]) -> str:
    """How many pairs were dropped, and why, the commonest reason first; "none dropped"."""
    chosen, lost = counts["chosen"], counts["dropped"]
    if not lost:
        return "none dropped"
    reasons = sorted(counts["reasons"].items(), key=lambda reason: -reason[1])
    listed = "; ".join(f"{count:,} {WORDS[name]}" for name, count in reasons if count)
    return f"{lost:,} dropped ({100 * lost / chosen:.1f}%): {listed}"


def log_counts(destination: str, counts: dict[str, Any]) -> None:
    """Log how many pairs are kept and dropped, and why; a warning where many are dropped."""
    chosen, lost = counts["chosen"], counts["dropped"]
    text = f"{destination}: {counts['kept']:,} of {chosen:,} sentence pairs kept, {losses(counts)}"
    if lost:
        text += f". They are in {os.path.join(destination, DROPPED)}"
    if lost > MANY * chosen:  # the corpus may be another one
        logger.warning("%s; more than 5%% dropped: look at them before training", text)
    else:
        logger.info("%s", text)


def _write_pair(
    corpus: Corpus,
    task: Any,
    source: Sentences,
    hypotheses: Hypotheses,
    keep: np.ndarray,
    building: str,
) -> dict[str, int]:
    """Write both sides as fairseq-preprocess does; return the tokens written, with </s>."""
    sides = {
        corpus.source: (corpus.prefix(corpus.source), task.source_dictionary),
        corpus.target: (corpus.prefix(corpus.target), task.target_dictionary),
    }
    builders, tokens = {}, {}
    for language, (name, dictionary) in sides.items():
        builders[language] = indexed_dataset.make_builder(
            os.path.join(building, name + ".bin"), impl="mmap", vocab_size=len(dictionary)
        )
        tokens[language] = 0
    starts = np.cumsum(hypotheses.lengths, dtype=np.int64) - hypotheses.lengths
    for row in bar(np.flatnonzero(keep).tolist(), "writing", unit="sentence"):
        begin, length = int(starts[row]), int(hypotheses.lengths[row])
        sentence = hypotheses.tokens[begin : begin + length]
        pair = {
            corpus.source: source[int(hypotheses.indices[row])],
            corpus.target: torch.from_numpy(sentence.astype(np.int64)),
        }
        for language, item in pair.items():
            builders[language].add_item(item)
            tokens[language] += len(item)
    for language, (name, _) in sides.items():
        stem = os.path.join(building, name)
        builders[language].finalize(stem + ".idx")
        sync(stem + ".bin")
        sync(stem + ".idx")
        read_back = indexed_dataset.make_dataset(stem, impl="mmap") if keep.any() else []
        if len(read_back) != int(keep.sum()):
            raise UsageError(stem, f"holds {len(read_back)} sentences")
    return tokens


def _write_dropped(path: str, plan: Plan, index: np.ndarray, codes: np.ndarray) -> None:
    every = np.concatenate([index[codes != 0], plan.left_out])
    why = np.concatenate([codes[codes != 0], plan.left_out_codes])
    with open(path, "w", encoding="utf-8") as stream:
        stream.write("index\treason\n")
        for place in np.argsort(every, kind="stable").tolist():
            stream.write(f"{int(every[place])}\t{REASONS[int(why[place])]}\n")
    sync(path)
