"""Random calls of the C interface: done or refused, in bounded time, within their buffers."""

import time

import pytest
import torch
from native_calls import Calls, Stack
from native_sessions import Drafter, Session

from fairseq_specdec.engine.native.library import load

SECONDS = 10


def case(calls):
    """A stack and its sessions; some calls on them, in any order."""
    random = calls.random
    calls.products()
    stack = Stack(calls, decoder=random.random() < 0.8)
    if stack.pointer is None:
        return
    actions = [stack.encode, stack.logits]
    if stack.decoder:
        session = Session(calls, stack)
        if random.random() < 0.9:
            session.open()
        actions = [session.open, *[session.run, session.verify, session.search] * 3, stack.logits]
        actions += [session.select, stack.encode]
        if stack.ready:
            drafter = Drafter(calls, stack, session.rows or None)
            if drafter.pointer is not None:
                actions += [drafter.draft, lambda: session.verify(drafter)] * 4
    for _ in range(8):
        random.choice(actions)()


@pytest.mark.skipif(load() is None, reason="no native library here")
def test_calls(fuzz):
    done = set()
    for seed in fuzz.seeds():
        random = fuzz.random(seed)
        torch.manual_seed(seed)
        calls = Calls(load(), random, random.choice((0, 0.003, 0.02, 0.1)), fuzz.counts)
        started = time.monotonic()
        case(calls)
        calls.close()
        done |= calls.done
        fuzz.counts["functions"] = len(done)
        assert time.monotonic() - started < SECONDS, seed
    assert len(done) > 25  # else what is to be called is refused for another reason
