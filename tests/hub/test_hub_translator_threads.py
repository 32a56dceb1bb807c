"""Threads share a ``SpeculativeTranslator``; with a seed they take turns."""

import threading

import pytest
from pairwise import half
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.decoding.loop import Batch
from fairseq_specdec.hub import SpeculativeTranslator

TEXTS = [text_of(line) for line in sentences(16, seed=9)]


def load(pair, strategy, **flags):
    if strategy in ("gad", "gad++"):
        flags["drafter"] = pair / "drafter.pt"
    return SpeculativeTranslator.from_pretrained(
        pair / "verifier.pt", strategy=strategy, device="cpu", **flags
    )


def together(count, work):
    """Run ``work(number)`` in threads.

    Raises:
        Exception: the first that one of them raised.
    """
    errors = []

    def run(number):
        try:
            work(number)
        except Exception as error:  # a thread's errors reach nobody else
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize(
    "count, seed, strategy", half([2, 4], [None, 4], ["greedy", "gad", "gad++", "iad"])
)
def test_threads_share_a_translator(pair, count, seed, strategy):
    # Whole drafts: a budget depends on the sentences that share a batch, and so do the iterations.
    whole = {"draft_budget": 0} if strategy in ("gad", "iad") else {}
    shared = load(pair, strategy, batch_size=5, seed=seed, **whole)
    expected = [result._replace(score=0.0, scores=()) for result in shared.translate(TEXTS)]
    once, offsets = shared.stats.iterations, [3, 11, 0, 14][:count]

    def work(number):
        offset = offsets[number]
        for _ in range(2):
            translations = shared.translate(TEXTS[offset:] + TEXTS[:offset])
            same = [result._replace(score=0.0, scores=()) for result in translations]
            assert same == expected[offset:] + expected[:offset]
            text = "".join(shared.translate_stream(TEXTS[offset]))
            assert text == " ".join(expected[offset].tokens)

    together(count, work)
    streamed = sum(expected[offset].iterations for offset in offsets)
    assert shared.stats.iterations == once + 2 * (count * once + streamed)
    assert shared.stats.sentences == len(TEXTS) + 2 * count * (len(TEXTS) + 1)


@pytest.mark.parametrize("seed", [None, 4])
def test_threads_take_turns_only_with_a_seed(pair, seed, monkeypatch):
    """One thread stops in the middle of a batch: another waits for it, or does not."""
    shared = load(pair, "gad", seed=seed)
    halfway, go_on, texts_by_thread = threading.Event(), threading.Event(), {}
    iterate = Batch.iterate

    def stop_once(batch, *most):
        iterate(batch, *most)
        if threading.current_thread().name == "first" and not halfway.is_set():
            halfway.set()
            assert go_on.wait(60)

    def work():
        texts_by_thread[threading.current_thread().name] = [
            r.text for r in shared.translate(TEXTS[:4])
        ]

    monkeypatch.setattr(Batch, "iterate", stop_once)
    first, second = (threading.Thread(target=work, name=name) for name in ("first", "second"))
    first.start()
    try:
        assert halfway.wait(60)
        second.start()
        second.join(60 if seed is None else 0.3)
        assert list(texts_by_thread) == (["second"] if seed is None else [])
    finally:
        go_on.set()
        first.join()
    second.join()
    assert (
        texts_by_thread["first"]
        == texts_by_thread["second"]
        == [r.text for r in shared.translate(TEXTS[:4])]
    )
