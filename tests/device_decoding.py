"""Toys that decode as on a GPU, each iteration watched by a ``DeviceGuard``."""

import copy

from device_guard import on_device
from toy_strategies import TOYS, flags, make_generator
from toy_translation import make_sample, sentences

BATCHES = {1: make_sample(sentences(1, seed=6)), 8: make_sample(sentences(8, seed=5))}
# Copies of an iteration: what is left of the rows; which prefixes to score, and what was found.
COPIES = {1: 1, 5: 5}


def device_generator(case, half=False, beam=1, **options):
    """The generator of a case of ``TOYS``, its verifier on the pretended device."""
    verifier = copy.deepcopy(TOYS[case].verifier())
    verifier = (verifier.half() if half else verifier).to("cuda")
    args = flags()
    args.beam = beam
    return make_generator(case, args, models=[verifier], **options)


def guarded(generator, guard, sample):
    """Decode a batch, after one that filled tables; no more waits and copies than there may be.

    Raises:
        AssertionError: what waited or was copied, by line.
    """
    sample, beam = on_device(sample), generator.options.beam
    generator.generate(generator.models, sample)
    guard.clear()
    with generator.batch(generator.models, sample) as batch:
        copying = generator.strategy in ("iad", "lookup")  # drafts are made on the host
        assert sum(guard.waits.values()) <= 1 + copying, dict(guard.waits)
        while batch.live:
            guard.clear()
            ended = sum(map(len, filter(None, batch.finished)))
            batch.iterate()
            ended = sum(map(len, filter(None, batch.finished))) - ended
            most = COPIES[beam] + (2 * ended if beam > 1 else copying)  # each is put on the device
            assert sum(guard.waits.values()) <= 1, dict(guard.waits)
            assert sum(guard.copies.values()) <= most, dict(guard.copies)
    assert all(h["tokens"].is_cuda and h["score"].is_cuda for h, *_ in batch.finished)
    return batch.finished
