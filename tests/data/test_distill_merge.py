"""Why sentences are dropped, and that the merge notices damage."""

import logging
import os

import numpy as np
import pytest

from fairseq_specdec.data.chunks import DistilledChunks, pack
from fairseq_specdec.data.merge import REPORT, WORDS, Filters, gather, judge, log_counts
from fairseq_specdec.data.plan import REASONS, Plan

EOS = 2


def reasons(tokens, source_lengths, at_limit=None, **filters):
    hypotheses = pack(range(len(tokens)), tokens, at_limit or [False] * len(tokens))
    codes = judge(hypotheses, np.array(source_lengths), Filters(**filters), EOS)
    return [REASONS[code] for code in codes]


def test_every_reason_is_distinguished():
    tokens = [[5, EOS], [5, EOS], [], [EOS], [5, 5, EOS], [5, 5, 5, 5, EOS], [5, EOS]]
    lengths = [2, 1, 3, 3, 3, 2, 5]
    at_limit = [False, False, False, False, True, False, False]
    assert reasons(tokens, lengths, at_limit, max_length_ratio=3.0) == [
        "kept", "empty_source", "no_hypothesis", "empty_target", "length_limit", "length_ratio",
        "length_ratio",
    ]  # fmt: skip


def test_first_reason_wins_and_bounds_are_inclusive():
    assert reasons([[EOS]], [1], [True], max_length_ratio=1.0) == ["empty_source"]
    assert reasons([[5, 5, EOS]], [2], max_length_ratio=2.0) == ["kept"]
    assert reasons([[5, 5, EOS]], [2], max_length_ratio=1.9) == ["length_ratio"]


def test_outputs_at_the_limit_can_be_kept():
    assert reasons([[5, EOS]], [2], [True]) == ["length_limit"]
    assert reasons([[5, EOS]], [2], [True], on_length_limit="keep") == ["kept"]


def test_hypothesis_without_eos_is_an_error():
    with pytest.raises(ValueError, match="</s>"):
        reasons([[5, EOS], [5, 6]], [2, 2])


@pytest.fixture
def two_chunks(tmp_path):
    """Four sentences of five (the second was too long), decoded in another order."""
    plan = Plan(
        np.array([4, 0, 3, 2]), np.array([2, 4]), np.array([1, 2]), np.array([1]), np.array([1]), 5
    )
    chunks = DistilledChunks(str(tmp_path / "out"), REPORT, {})
    os.makedirs(chunks.directory)
    chunks.agree_on(plan)
    chunks.write(0, pack([4, 0], [[9, 9, EOS], [5, EOS]], [True, False]), 1.5)
    chunks.write(1, pack([3, 2], [[], [7, EOS]], [False, False]), 0.5)
    return chunks, plan


def test_order_is_restored(two_chunks):
    together, seconds = gather(*two_chunks)
    assert together.indices.tolist() == [0, 2, 3, 4] and together.lengths.tolist() == [2, 2, 0, 3]
    assert together.tokens.tolist() == [5, EOS, 7, EOS, 9, 9, EOS]
    assert together.at_limit.tolist() == [False, False, False, True] and seconds == 2.0


def test_merge_waits_for_every_chunk(two_chunks):
    chunks, plan = two_chunks
    os.unlink(os.path.join(chunks.directory, "chunk-000001.npz"))
    assert chunks.unfinished() == [1]
    with pytest.raises(ValueError, match="1 of 2 chunks"):
        gather(chunks, plan)


def test_doubled_and_lost_sentences_are_noticed(two_chunks):
    chunks, plan = two_chunks
    chunks.write(1, pack([3, 4], [[7, EOS], [7, EOS]], [False, False]), 0.5)
    with pytest.raises(ValueError, match="lack 1 .* hold 1 twice"):
        gather(chunks, plan)


def test_truncated_chunk_is_named(two_chunks):
    chunks, plan = two_chunks
    path = chunks.directory + "/chunk-000000.npz"
    with open(path, "r+b") as stream:
        stream.truncate(100)
    with pytest.raises(ValueError, match="chunk-000000.npz: damaged"):
        gather(chunks, plan)


def test_another_plan_is_refused(two_chunks):
    chunks, plan = two_chunks
    chunks.agree_on(plan)
    with pytest.raises(ValueError, match="other batches"):
        chunks.agree_on(plan._replace(batch_ends=np.array([1, 4])))


@pytest.mark.parametrize(
    "lost, level, text",
    [
        ({}, logging.INFO, "out: 1,000 of 1,000 sentence pairs kept, none dropped"),
        ({"empty_source": 5, "length_limit": 15}, logging.INFO,
         "out: 980 of 1,000 sentence pairs kept, 20 dropped (2.0%): 15 outputs cut off at the "
         "length limit (--max-len-a, --max-len-b); 5 empty sources. They are in out/dropped.tsv"),
        ({"length_limit": 50}, logging.INFO, "50 dropped (5.0%)"),
        ({"length_limit": 51}, logging.WARNING, "more than 5% dropped: look at them"),
    ],
)  # fmt: skip
def test_what_was_dropped_is_logged_and_is_a_warning_where_it_is_much(lost, level, text, caplog):
    assert set(WORDS) == set(REASONS[1:])
    reasons = dict(dict.fromkeys(REASONS[1:], 0), **lost)
    dropped = sum(reasons.values())
    counts = {"chosen": 1000, "kept": 1000 - dropped, "dropped": dropped, "reasons": reasons}
    with caplog.at_level(logging.INFO, "fairseq_specdec.data.merge"):
        log_counts("out", counts)
    (record,) = caplog.records
    assert record.levelno == level and text in record.getMessage()
