"""Decoding beside an event loop, and threads that share a ``SpeculativeTranslator``."""

import asyncio
import concurrent.futures
import threading

import pytest
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.decoding.greedy import Batch
from fairseq_specdec.hub import SpeculativeTranslator

TEXTS = [text_of(line) for line in sentences(16, seed=9)]


def load(pair, strategy, **flags):
    return SpeculativeTranslator.from_pretrained(pair, strategy=strategy, device="cpu", **flags)


@pytest.fixture
def translator(pair):
    with load(pair, "greedy", batch_size=1, backend="torch") as loaded:
        yield loaded


@pytest.fixture
def held(monkeypatch):
    """Stops every batch before an iteration until ``go_on`` is set."""
    iterate, go_on, begun = Batch.iterate, threading.Event(), threading.Event()

    def wait(batch, *most):
        begun.set()
        assert go_on.wait(60)
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", wait)
    return begun, go_on


def test_a_cancelled_call_ends_with_the_next_text(translator, held):
    begun, go_on = held

    async def main():
        task = asyncio.ensure_future(translator.translate_async(TEXTS))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(main())
    translator.close()  # waits for the thread
    assert translator.stats.sentences == 1


def test_mistakes_are_raised_where_they_are_awaited(translator):
    with pytest.raises(TypeError, match="^beem: no such decoding flag"):
        asyncio.run(translator.translate_async(TEXTS, beem=2))
    translator.close()
    with pytest.raises(ValueError, match="^this translator is closed"):
        asyncio.run(translator.translate_async(TEXTS))
    assert not [t for t in threading.enumerate() if t.name.startswith("specdec-async")]


@pytest.mark.parametrize("seed", [None, 4])
def test_threads_take_turns_only_with_a_seed(pair, seed, monkeypatch):
    """One thread stops in the middle of a batch: another waits for it, or does not."""
    shared = load(pair, "gad", seed=seed)
    halfway, go_on, first = threading.Event(), threading.Event(), threading.Lock()
    iterate = Batch.iterate

    def stop_once(batch, *most):
        iterate(batch, *most)
        if first.acquire(blocking=False):
            halfway.set()
            assert go_on.wait(60)

    monkeypatch.setattr(Batch, "iterate", stop_once)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one = pool.submit(shared.translate, TEXTS[:4])
        try:
            assert halfway.wait(60)
            other = pool.submit(shared.translate, TEXTS[:4])
            done, _ = concurrent.futures.wait([other], 60 if seed is None else 0.3)
            assert bool(done) is (seed is None) and not one.done()
        finally:
            go_on.set()
    texts = [[each.text for each in future.result()] for future in (one, other)]
    assert texts[0] == texts[1] == [each.text for each in shared.translate(TEXTS[:4])]
