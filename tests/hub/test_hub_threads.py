"""Decoding beside an event loop."""

import asyncio
import threading

import pytest
import torch
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.decoding.loop import Batch
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.threads import workers

TEXTS = [text_of(line) for line in sentences(12, seed=9)]


@pytest.fixture
def translator(pair):
    with SpeculativeTranslator.from_pretrained(
        pair, strategy="greedy", device="cpu", batch_size=1, backend="torch"
    ) as loaded:
        yield loaded


def test_awaited_results_are_those_of_translate(translator):
    async def main():
        one = await translator.translate_async(TEXTS[0], beam=2, nbest=2)
        all_of_them = await asyncio.gather(*map(translator.translate_async, TEXTS))
        return one, all_of_them, await translator.translate_async(TEXTS, progress=True)

    one, gathered, listed = asyncio.run(main())
    assert one == translator.translate(TEXTS[0], beam=2, nbest=2)
    assert list(gathered) == listed == translator.translate(TEXTS)


def test_the_event_loop_goes_on_meanwhile(translator, monkeypatch):
    iterate, ticked = Batch.iterate, threading.Event()

    def held(batch, *most):
        assert ticked.wait(60), "the event loop stood still"
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", held)

    async def main():
        asyncio.get_running_loop().call_later(0.01, ticked.set)
        return await translator.translate_async(TEXTS[0])

    assert asyncio.run(main()).text


def test_a_cancelled_call_ends_with_the_next_text(translator, monkeypatch):
    iterate, begun, go_on, batches = Batch.iterate, threading.Event(), threading.Event(), set()

    def held(batch, *most):
        batches.add(id(batch))
        begun.set()
        assert go_on.wait(60)
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", held)

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
    async def main(*texts, **flags):
        await translator.translate_async(*texts, **flags)

    with pytest.raises(TypeError, match="^beem: no such decoding flag"):
        asyncio.run(main(TEXTS, beem=2))
    translator.close()
    with pytest.raises(ValueError, match="^this translator is closed"):
        asyncio.run(main(TEXTS))
    assert not [t for t in threading.enumerate() if t.name.startswith("specdec-async")]


def test_as_many_calls_as_cores_have_room_for(monkeypatch):
    monkeypatch.setattr("fairseq_specdec.hub.threads.cores", lambda: 8)
    for threads, expected in ((1, 8), (3, 2), (8, 1), (16, 1)):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=threads: n)
        assert workers(torch.device("cpu")) == expected
    assert workers(torch.device("cuda")) == 1
