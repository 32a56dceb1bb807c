"""Decoding as on a GPU: one device, one wait an iteration, no more launches than before."""

import gc

import pytest
import torch
from device_decoding import BATCHES, device_generator, guarded
from device_guard import DeviceGuard, MixedDevicesError, PretendedEvent
from device_systems import SYSTEMS, count
from pairwise import half
from toy_strategies import TOYS, decode, flags, make_generator, stock, tokens
from toy_translation import make_task

from fairseq_specdec.acceptance import ExactRule
from fairseq_specdec.engine.state import to_device

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "untyped_storage"), reason="needs the modes of torch 2"
)


# ---- the guard itself --------------------------------------------------------------------------


def test_tensors_name_the_device_they_were_put_on():
    with DeviceGuard():
        there, here = torch.zeros(3, 4, device="cuda"), torch.ones(3, 4)
        assert there.is_cuda and there.device.type == "cuda" and not here.is_cuda
        assert (there + 1).is_cuda and there.view(-1)[2:].is_cuda and there.new_ones(2).is_cuda
        assert torch.arange(3, device=there.device).is_cuda and here.to(there).is_cuda
        layer = torch.nn.Linear(4, 5).to("cuda")
        layer(there).sum().backward()
        assert layer.weight.is_cuda and layer.weight.grad.is_cuda
        assert not there.cpu().is_cuda


def test_tensors_of_two_devices_are_refused():
    with DeviceGuard() as guard:
        there, here = torch.zeros(3, device="cuda"), torch.ones(3)
        with pytest.raises(MixedDevicesError, match=r"add of cuda \[3\], cpu \[3\]"):
            there + here
        assert sum(guard.mixed.values()) == 1
        there + torch.ones(())  # a number may come from anywhere


WAITING = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool((x > 0).any()),
    "int": lambda x: int(x.argmax()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "bool mask": lambda x: x[x > 0],
    "tensor": lambda x: torch.tensor([1], device=x.device),
    "to": lambda x: torch.ones(2).to(x.device),
    "index": lambda x: x[torch.zeros(2, dtype=torch.long)],
}


@pytest.mark.parametrize("way", WAITING)
def test_waiting_is_noticed(way):
    with DeviceGuard() as guard:
        there = torch.ones(3, device="cuda")
        guard.clear()
        WAITING[way](there)
        assert sum(guard.waits.values()) == 1


def test_what_does_not_wait():
    with DeviceGuard() as guard:
        there = torch.ones(3, 4, device="cuda")
        guard.clear()
        there.masked_fill(there > 0, 2.0).topk(2)
        moved = to_device([1, 2], there.device)
        assert moved.is_cuda and not guard.waits and sum(guard.copies.values()) == 1


def test_launches_are_counted_and_views_are_not():
    with DeviceGuard() as guard:
        there = torch.ones(3, 4, device="cuda")
        guard.clear()
        there.view(4, 3).t().unsqueeze(0)[0].contiguous().contiguous()
        assert guard.launches == 1
        (line, operator), count = guard.kernels.popitem()
        assert "test_device_guard.py:" in line and operator == "clone" and count == 1


# ---- decoding ----------------------------------------------------------------------------------


LOSSLESS = [case for case, toys in TOYS.items() if toys.lossless is not None]


@pytest.mark.parametrize("case, rows", half(LOSSLESS, [*BATCHES]))
def test_lossless_strategies_equal_stock(case, rows):
    want = tokens(stock([TOYS[case].verifier()], BATCHES[rows], flags()))
    with DeviceGuard() as guard:
        outputs = guarded(device_generator(case), guard, BATCHES[rows])
        assert tokens(h[0] for h in outputs) == want


@pytest.mark.parametrize("case", [case for case, toys in TOYS.items() if toys.settings])
def test_relaxed_strategies_give_what_they_give_on_a_cpu(case):
    generator = make_generator(case, lossless=False, backend="torch")
    want = tokens(decode(generator, BATCHES[8]))
    with DeviceGuard() as guard:
        outputs = guarded(device_generator(case, lossless=False), guard, BATCHES[8])
        assert tokens(h[0] for h in outputs) == want


@pytest.mark.parametrize("case, rows", half([*TOYS], [8, 1]))
def test_strategies_in_half_precision(case, rows):
    with DeviceGuard() as guard:
        outputs = guarded(device_generator(case, half=True), guard, BATCHES[rows])
        assert all(h["tokens"].tolist()[-1] == 2 for h, *_ in outputs)


@pytest.mark.parametrize("case, rows, is_half", half(["greedy", "iad"], [*BATCHES], [False, True]))
def test_beams_equal_stock(case, rows, is_half):
    args = flags()
    args.beam = 5
    task = make_task()
    model = TOYS[case].verifier()
    want = task.inference_step(task.build_generator([model], args), [model], BATCHES[rows])
    with DeviceGuard() as guard:
        outputs = guarded(device_generator(case, is_half, beam=5), guard, BATCHES[rows])
        if not is_half:
            assert [tokens(each) for each in outputs] == [tokens(each) for each in want]


def test_beams_of_several_sentences_are_not_drafted_for():
    """On a GPU, unless a budget asks for it."""
    with DeviceGuard() as guard:
        generator = device_generator("iad", beam=5, draft_budget=None)
        guarded(generator, guard, BATCHES[8])
        assert generator.stats.drafted == 0
        guarded(generator, guard, BATCHES[1])
        assert generator.stats.drafted > 0


def test_events_do_not_pile_up():
    gc.collect()  # what other tests have left
    before = PretendedEvent.live
    with DeviceGuard() as guard:
        generator = device_generator("gad")
        for _ in range(2):
            guarded(generator, guard, BATCHES[8])
        assert PretendedEvent.live <= before and generator.stats.times()["verifier"] > 0


# ---- what the guard must notice ----------------------------------------------------------------


def reading_rule(self, draft, scores, accept=ExactRule.accept):
    verdict = accept(self, draft, scores)
    verdict.counts.sum().item()
    return verdict


def picking_rule(self, draft, scores, accept=ExactRule.accept):
    verdict = accept(self, draft, scores)
    draft.sizes[draft.sizes > 0]
    return verdict


def host_rule(self, draft, scores, accept=ExactRule.accept):
    verdict = accept(self, draft, scores)
    return verdict._replace(counts=verdict.counts + torch.zeros(draft.sizes.size(0)).long())


def fetching_rule(self, draft, scores, accept=ExactRule.accept):
    verdict = accept(self, draft, scores)
    return verdict._replace(counts=verdict.counts.cpu().to(draft.tokens.device))


@pytest.mark.parametrize("rule", [reading_rule, picking_rule, host_rule, fetching_rule])
def test_a_rule_that_breaks_the_rules_is_noticed(rule, monkeypatch):
    monkeypatch.setattr(ExactRule, "accept", rule)
    with DeviceGuard() as guard:
        with pytest.raises((AssertionError, MixedDevicesError)):
            guarded(device_generator("gad"), guard, BATCHES[8])


def test_a_selection_that_waits_is_noticed(monkeypatch):
    waiting = lambda numbers, device: torch.tensor(numbers, device=device)  # noqa: E731
    monkeypatch.setattr("fairseq_specdec.engine.state.to_device", waiting)
    with DeviceGuard() as guard, pytest.raises(AssertionError, match="on the device"):
        guarded(device_generator("greedy"), guard, BATCHES[8])


# ---- launches ----------------------------------------------------------------------------------

# Most launches of an iteration, of 8 rows, at the papers' depth: the table of device_systems.py.
MOST_LAUNCHES = {
    "greedy": 110,
    "iad": 110,
    "gad attached with chain, k = 10": 256,
    "gad++ attached with chain, k = 10": 274,
    "gad 12+2, k = 25": 192,
    "gad++ 12+2, k = 25": 210,
    "gad 6+6 bidirectional, k = 25": 251,
    "sps 6+1": 298,
    "sps 6+1 sampled": 392,
    "bild 6+1": 485,
    "bild-early-exit, layer 1": 485,
    "blockwise, k = 8": 155,
    "beam 5": 114,
    "beam 5, iad": 114,
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_launches_of_an_iteration(name):
    counted, kernels = count(SYSTEMS[name], rows=8)
    assert counted.launches <= MOST_LAUNCHES[name], kernels.most_common(20)
    assert counted.waits <= 1 and counted.start_waits <= 2
