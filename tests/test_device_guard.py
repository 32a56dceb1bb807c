"""Decoding and training as on a GPU: one device, one wait per iteration, few launches.

With recorded passes and drafts (CUDA graphs) nothing waits inside a recording.
"""

import copy

import pytest
import torch
from device_guard import DeviceGuard, on_device
from device_systems import SYSTEMS, count
from device_training import CASES, batch
from pairwise import half
from plain_graphs import GuardedRecorder, plain_graphs
from toy_strategies import TOYS, decode, flags, make_generator, stock, stock_beams, tokens
from toy_translation import make_sample, sentences

from fairseq_specdec.decoding import generator as generator_module

BATCHES = {1: make_sample(sentences(1, seed=6)), 8: make_sample(sentences(8, seed=5, longest=5))}
# Copies of an iteration: what is left of the rows; which prefixes to score, and what was found.
COPIES = {1: 1, 5: 5}


def device_generator(case, fp16=False, beam=1, **options):
    """The generator of a case of ``TOYS``, its verifier on the pretended device."""
    verifier = copy.deepcopy(TOYS[case].verifier())
    verifier = (verifier.half() if fp16 else verifier).to("cuda")
    return make_generator(case, flags(beam), models=[verifier], **options)


def guarded(generator, guard, sample):
    """Hypotheses of a batch, decoded after one that filled tables; no more waits and copies than
    there may be.

    Raises:
        AssertionError: what waited or was copied, by line.
    """
    sample, beam = on_device(sample), generator.options.beam
    generator.generate(generator.models, sample)
    guard.clear()
    with generator.batch(generator.models, sample) as decoded:
        copying = generator.strategy in ("iad", "lookup")  # drafts are made on the host
        assert sum(guard.waits.values()) <= 1 + copying, dict(guard.waits)
        while decoded.live:
            guard.clear()
            ended = sum(map(len, filter(None, decoded.finished)))
            decoded.iterate()
            ended = sum(map(len, filter(None, decoded.finished))) - ended
            most = COPIES[beam] + (2 * ended if beam > 1 else copying)  # each is put on the device
            assert sum(guard.waits.values()) <= 1, dict(guard.waits)
            assert sum(guard.copies.values()) <= most, dict(guard.copies)
    assert all(h["tokens"].is_cuda and h["score"].is_cuda for h, *_ in decoded.finished)
    return decoded.finished


# Rows, whether the flags are those of stock's output, the format.
WAYS = {
    "a batch": (8, True, False), "a sentence": (1, True, False), "relaxed": (8, False, False),
    "fp16": (8, True, True),
}  # fmt: skip


@pytest.mark.parametrize("case, way", half([*TOYS], [*WAYS]))
def test_strategies_give_what_they_give_on_a_cpu(case, way):
    rows, lossless, fp16 = WAYS[way]
    want = decode(make_generator(case, lossless=lossless, backend="torch"), BATCHES[rows])
    with DeviceGuard() as guard:
        outputs = guarded(device_generator(case, fp16, lossless=lossless), guard, BATCHES[rows])
        outputs = tokens(h[0] for h in outputs)
    assert all(one[-1] == 2 for one in outputs) if fp16 else outputs == tokens(want)


@pytest.mark.parametrize("case, rows, fp16", half(["greedy", "iad"], [*BATCHES], [False, True]))
def test_beams_equal_stock(case, rows, fp16):
    want = stock_beams([TOYS[case].verifier()], BATCHES[rows], flags(5))
    with DeviceGuard() as guard:
        outputs = guarded(device_generator(case, fp16, beam=5), guard, BATCHES[rows])
        if not fp16:
            assert [tokens(each) for each in outputs] == [tokens(each) for each in want]


@pytest.mark.parametrize("rows, drafts", [(8, False), (1, True)])
def test_beams_of_several_sentences_are_not_drafted_for(rows, drafts):
    """On a GPU, unless a budget asks for it."""
    with DeviceGuard() as guard:
        generator = device_generator("iad", beam=5, draft_budget=None)
        guarded(generator, guard, BATCHES[rows])
        assert (generator.stats.drafted > 0) == drafts


# ---- recordings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case, fp16",
    [("greedy", False), ("iad", False), ("gad", True), ("gad-attached", False),
     ("gad++", False), ("sps", True), ("blockwise", False)],
)  # fmt: skip
def test_nothing_waits_in_a_recording(case, fp16, monkeypatch):
    chosen = plain_graphs(GuardedRecorder)
    monkeypatch.setattr(generator_module, "graphs_for", chosen)
    with DeviceGuard() as guard:
        GuardedRecorder.clear(guard)
        outputs = guarded(device_generator(case, fp16), guard, BATCHES[8])
        assert sum(GuardedRecorder.kernels.values()) > 0 and not chosen.made[0].broken
        assert not GuardedRecorder.waits and not GuardedRecorder.copies
        outputs = tokens(h[0] for h in outputs)
    if not fp16:
        assert outputs == tokens(stock([TOYS[case].verifier()], BATCHES[8], flags()))


# ---- launches ------------------------------------------------------------------------------------

# Most launches of an iteration of 8 rows at the papers' depth, and with graphs, each of which is
# one: the table of device_systems.py.
MOST_LAUNCHES = {
    "greedy": (111, 18),
    "iad": (111, 18),
    "gad attached with chain, k = 10": (257, 46),
    "gad++ attached with chain, k = 10": (275, 64),
    "gad 12+2, k = 25": (192, 43),
    "gad++ 12+2, k = 25": (210, 61),
    "gad 6+6 bidirectional, k = 25": (251, 155),
    "sps 6+1": (298, 117),
    "sps 6+1 sampled": (392, None),
    "bild 6+1": (490, None),
    "bild-early-exit, layer 1": (490, None),
    "blockwise, k = 8": (155, 49),
    "beam 5": (114, None),
    "beam 5, iad": (114, None),
}
COUNTED = [
    (name, graphs)
    for name, most in MOST_LAUNCHES.items()
    for graphs in (False, True)
    if most[graphs] is not None
]


@pytest.mark.slow
@pytest.mark.parametrize("name, graphs", COUNTED)
def test_launches_of_an_iteration(name, graphs):
    torch.backends.cuda.enable_flash_sdp(True)  # a model in bf16 has turned it off (compat/bf16.py)
    counted, kernels = count(SYSTEMS[name], rows=8, graphs=graphs)
    assert 0 < counted.launches <= MOST_LAUNCHES[name][graphs], kernels.most_common(20)
    assert counted.waits <= 1 and counted.start_waits <= 2
    if graphs:
        assert not GuardedRecorder.waits and not GuardedRecorder.copies
        assert counted.copies == (name == "iad")  # its draft, made on the host


# ---- training ------------------------------------------------------------------------------------

# Of a step: choosing places by a mask, and asking for padding, in fairseq's layers too.
MOST_WAITS, OF_ALL_HEADS = 15, 23


@pytest.mark.parametrize("fp16", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_training_step(case, fp16):
    torch.manual_seed(0)
    make, criterion = CASES[case]
    with DeviceGuard() as guard:
        trained, judge, given = make(), criterion(), batch()
        (trained.half() if fp16 else trained).to("cuda").train()
        trained.set_num_updates(3)
        for _ in range(2):  # the first one moves tables and the verifier
            trained.zero_grad()
            guard.clear()
            loss, _, log = judge(trained, given)
            (loss * (128.0 if fp16 else 1.0)).backward()
        waits = dict(guard.waits)
        assert loss.is_cuda and bool(torch.isfinite(loss))
        missing = [n for n, p in trained.named_parameters() if p.requires_grad and p.grad is None]
        assert not missing, "data-parallel training would wait for these gradients"
        assert all(p.grad.is_cuda for p in trained.parameters() if p.grad is not None)
        assert all(x.is_cuda for x in log.values() if isinstance(x, torch.Tensor))
        most = OF_ALL_HEADS if case == "blockwise, all heads" else MOST_WAITS
        assert sum(waits.values()) <= most, waits
