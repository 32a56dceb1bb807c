"""Decoding and training as on a GPU: one device, one wait per iteration, few launches.

With recorded passes and drafts (CUDA graphs) nothing waits inside a recording.
"""

import copy
import math

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
from fairseq_specdec.decoding.greedy import AHEAD
from fairseq_specdec.engine.state import Layout, columns_after, horizon_mask
from fairseq_specdec.engine.transformer import Verifier

BATCHES = {1: make_sample(sentences(1, seed=6)), 8: make_sample(sentences(8, seed=5, longest=5))}
# Copies of an iteration: what is read, what is left of the rows; which prefixes to score.
COPIES = {1: 2, 5: 5}


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


@pytest.mark.parametrize("graphs", [False, True])
def test_greedy_decoding_waits_once_in_several_steps(graphs, monkeypatch):
    if graphs:
        monkeypatch.setattr(generator_module, "graphs_for", plain_graphs(GuardedRecorder))
    want = tokens(stock([TOYS["greedy"].verifier()], BATCHES[8], flags()))
    with DeviceGuard() as guard:
        GuardedRecorder.clear(guard)
        generator, sample = device_generator("greedy"), on_device(BATCHES[8])
        generator.generate(generator.models, sample)
        guard.clear()
        outputs = generator.generate(generator.models, sample)
        waits = sum(guard.waits.values())
        assert tokens(h[0] for h in outputs) == want
        assert waits <= 1 + math.ceil(max(map(len, want)) / AHEAD), dict(guard.waits)
        assert not GuardedRecorder.waits and not GuardedRecorder.copies


def pass_over(model, net_input, tokens, layers):
    """(log-probabilities, the states read) of a block at the start."""
    verifier = Verifier([model], read_layers=layers)
    session = verifier.open(verifier.encode(net_input), 20, tokens.size(1))
    places = torch.arange(tokens.size(1), device=tokens.device).expand_as(tokens)
    layout = Layout.at(places, [tokens.size(1) - 1] * len(tokens))
    scores = session.score(tokens, layout)
    return scores.log_probs, session.sessions[0].states[:, 1 : tokens.size(1) + 1]


@pytest.mark.parametrize("layers", [(1,), (2,), (1, 2)])
@torch.no_grad()
def test_a_pass_that_adds_residuals_in_products_gives_the_same_numbers(layers):
    """Also the states that drafters read, which no later layer may change."""
    model, net_input = TOYS["greedy"].verifier(), BATCHES[8]["net_input"]
    tokens = torch.arange(4, 28).view(8, 3)
    want = pass_over(model, net_input, tokens, layers)
    with DeviceGuard() as guard:
        moved = copy.deepcopy(model).to("cuda")
        got = pass_over(moved, on_device(net_input), tokens.to("cuda"), layers)
        assert any(name == "addmm_" for _, name in guard.kernels)
        for mine, theirs in zip(got, want):
            torch.testing.assert_close(mine.cpu(), theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("upto", [7, 256, 300])
def test_what_a_gpu_looks_up_is_what_a_cpu_computes(upto):
    lengths = torch.tensor([0, 3, upto - 4])
    slots = columns_after(lengths, -2, 5, upto)
    seen = horizon_mask(slots, upto)
    with DeviceGuard() as guard:
        there = columns_after(lengths.to("cuda"), -2, 5, upto)
        mask = Layout(there, there, upto).mask(there.half()).squeeze(1)
        assert all(name in ("embedding", "clone", "_to_copy") for _, name in guard.kernels)
        assert there.tolist() == slots.tolist() and mask.stride(1) % 16 == 0
        assert mask.tolist() == torch.where(seen, 0.0, float("-inf")).tolist()


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


# Most launches of an iteration of 8 rows at the papers' depth, and with graphs, each of which is
# one.
MOST_LAUNCHES = {
    "greedy": (85, 10),
    "iad": (86, 11),
    "gad attached with chain, k = 10": (142, 17),
    "gad++ attached with chain, k = 10": (163, 45),
    "gad 12+2, k = 25": (130, 13),
    "gad++ 12+2, k = 25": (151, 41),
    "gad 6+6 bidirectional, k = 25": (177, 101),
    "sps 6+1": (228, 86),
    "sps 6+1 sampled": (331, None),
    "bild 6+1": (422, None),
    "bild-early-exit, layer 1": (422, None),
    "blockwise, k = 8": (113, 27),
    "beam 5": (95, None),
    "beam 5, iad": (95, None),
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
        assert counted.copies == 1 + (name == "iad")  # what is read; its draft, made on the host


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
