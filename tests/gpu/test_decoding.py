"""Every strategy on a GPU: exact in fp32; measured in 16 bits; one wait an iteration."""

import copy
import json
import os
import pathlib
import threading

import pytest
import torch
from device_guard import on_device
from random_chains import random_chains
from toy_strategies import TOYS, decode, flags, make_generator, stock, stock_beams, tokens
from toy_translation import make_sample, sentences

from fairseq_specdec.decoding import generator as generator_module
from fairseq_specdec.drafting.token_choice import chain_steps, steps_on
from fairseq_specdec.engine.torch_graphs import CudaRecorder, Graphs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

BATCHES = {1: make_sample(sentences(1, seed=6)), 8: make_sample(sentences(8, seed=5))}
MANY = [make_sample(sentences(16, seed=seed)) for seed in range(20, 26)]
LOSSLESS = [case for case, toys in TOYS.items() if toys.lossless is not None]
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}


def device_generator(case, dtype=torch.float32, beam=1, **options):
    verifier = copy.deepcopy(TOYS[case].verifier()).to("cuda", dtype)
    # `recorded` does not ask.
    return make_generator(case, flags(beam), models=[verifier], cuda_graphs="off", **options)


@pytest.fixture(autouse=True)
def no_tf32():
    """fp32 means fp32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.fixture(params=[False, True], ids=["launched", "recorded"])
def graphs(request):
    """None, or those of ``recorded``."""
    return request.getfixturevalue("recorded") if request.param else None


@pytest.fixture
def recorded(monkeypatch):
    """CUDA graphs of every shape from its first use on; the ``Graphs`` that were made."""
    made = []

    def graphs_for(asked, models, block_size):
        made.append(Graphs(block_size, after=0))
        return made[-1]

    monkeypatch.setattr(generator_module, "graphs_for", graphs_for)
    return made


def check_replayed(generator, graphs):
    """Shapes of the verifier were recorded, and none failed; or there are no graphs."""
    if graphs is not None:
        (weights,) = generator._parts.verifier.weights
        shapes = sum(len(cache.recordings.passes) for cache in weights.decoder.spare)
        assert not graphs[0].broken and shapes > 0


def check(outputs, want):
    assert tokens(outputs) == tokens(want)
    for ours, theirs in zip(outputs, want):
        assert ours["tokens"].is_cuda
        torch.testing.assert_close(ours["score"], theirs["score"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", BATCHES)
@pytest.mark.parametrize("case", LOSSLESS)
def test_lossless_strategies_equal_stock(case, rows, graphs):
    generator, sample = device_generator(case), on_device(BATCHES[rows])
    want = stock(generator.models, sample, flags())
    for _ in range(1 if graphs is None else 3):  # replayed on buffers that held another batch
        check(decode(generator, sample), want)
        decode(generator, on_device(MANY[0]))
    check_replayed(generator, graphs)


@pytest.mark.parametrize("case", TOYS)
def test_other_flags_give_what_they_give_on_a_cpu(case):
    generator = device_generator(case, lossless=False)
    want = decode(make_generator(case, lossless=False, backend="torch"), BATCHES[8])
    outputs = decode(generator, on_device(BATCHES[8]))
    assert tokens(outputs) == tokens(want)
    for ours, theirs in zip(outputs, want):
        torch.testing.assert_close(ours["score"].cpu(), theirs["score"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case, more", [("greedy", {}), ("iad", {}), ("gad", {"draft_budget": 20})])
def test_beams_equal_stock(case, more, graphs):
    generator = device_generator(case, beam=5, **more)
    for sample in map(on_device, [*MANY[:2], BATCHES[8], MANY[0], BATCHES[1]]):
        want = stock_beams(generator.models, sample, flags(5))
        outputs = generator.generate(generator.models, sample)
        assert [tokens(each) for each in outputs] == [tokens(each) for each in want]
    check_replayed(generator, graphs)


def test_a_stream_has_its_own_buffers(recorded):
    """Two threads encode on streams of their own, with other sentences in the same shapes."""
    generator = device_generator("greedy")
    decode(generator, on_device(MANY[0]))
    encode = generator._parts.verifier.weights[0].encode
    samples = [on_device(MANY[number])["net_input"] for number in (1, 2)]
    with torch.no_grad():
        want = [encode(given, True)["encoder_out"][0].clone() for given in samples]
    torch.cuda.synchronize()
    wrong = []

    def work(given, expected):
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(100):
                encoded = encode(given, True)["encoder_out"][0]
                torch.cuda.current_stream().synchronize()
                if not torch.allclose(encoded, expected, atol=1e-5):
                    wrong.append(encoded)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(samples, want)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not recorded[0].broken
    assert len(encode.streams) == 3


@pytest.mark.parametrize("precision", HALF)
@pytest.mark.parametrize("case", LOSSLESS)
def test_divergence_in_16_bits(case, precision, graphs):
    """In 16 bits lossless strategies may leave stock's path at near ties: how often is written to
    the report, and more than a tenth of the sentences is a fault."""
    dtype = HALF[precision]
    if dtype == torch.bfloat16 and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("this card has no bf16 units")
    generator = device_generator(case, dtype)
    same = count = 0
    for sample in map(on_device, MANY):
        outputs = tokens(decode(generator, sample))
        want = tokens(stock(generator.models, sample, flags()))
        same += sum(a == b for a, b in zip(outputs, want))
        count += len(want)
    check_replayed(generator, graphs)
    what = f"{case}, {precision}" + ("" if graphs is None else ", CUDA graphs")
    note(what, {"sentences": count, "identical": same})
    assert same >= 0.9 * count


def note(name, figures):
    """Add figures to the file that $GPU_FIGURES names."""
    path = os.environ.get("GPU_FIGURES")
    if path:
        file = pathlib.Path(path)
        known = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps(dict(known, **{name: figures}), indent=1))


def microseconds(recorded, times=50):
    """Of a recorded computation."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        recorded()
    end.record()
    end.synchronize()
    return 1000 * start.elapsed_time(end) / times


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("width", [256, 512])
@pytest.mark.parametrize("rows", [1, 8, 32])
def test_a_chain_in_one_kernel_equals_torch(rows, width, dtype):
    """A sum in another order may decide near ties. How long both take is written to the report."""
    device = torch.device("cuda", 0)
    kernel = steps_on(device)
    if kernel is chain_steps:
        pytest.skip("needs Triton and a card of capability 7.0 or higher")
    torch.manual_seed(0)
    count = 64 if rows == 1 else 32
    *given, tables = random_chains(rows, 10, count, width, 32000, dtype)
    given, tables = [each.to(device) for each in given], tuple(each.to(device) for each in tables)
    bonuses, recorder, results = given[1], CudaRecorder(device), []
    for steps in (kernel, chain_steps):
        recorded, outputs = recorder.record(lambda steps=steps: steps(*given, tables, True))
        results.append((recorded, outputs))
    same = 0
    for _ in range(20):
        bonuses.copy_(torch.randn_like(bonuses))
        pairs = []
        for recorded, outputs in results:
            recorded()
            pairs.append([each.clone() for each in outputs])
        (tokens, chances), (expected, wanted) = pairs
        alike = (tokens == expected).all(1)
        torch.testing.assert_close(chances[alike], wanted[alike], rtol=1e-4, atol=1e-5)
        same += int(alike.sum())
    times = {"kernel us": microseconds(results[0][0]), "torch us": microseconds(results[1][0])}
    note(f"chain of 10, {width} wide, {rows} rows, {dtype}", {**times, "identical": same})
    assert same >= 0.98 * 20 * rows


@pytest.mark.parametrize("case", LOSSLESS)
def test_an_iteration_waits_once(case):
    """torch itself raises where the host waits; the one read-back is let through."""
    generator = device_generator(case)
    sample = on_device(BATCHES[8])
    decode(generator, sample)
    with generator.batch(generator.models, sample) as batch:
        batch.iterate()
        torch.cuda.synchronize()
        waits, read = [], torch.Tensor.cpu

        def reading(tensor):
            if not tensor.is_cuda:
                return read(tensor)
            torch.cuda.set_sync_debug_mode("default")
            waits.append(tensor.shape)
            value = read(tensor)
            torch.cuda.set_sync_debug_mode("error")
            return value

        torch.cuda.set_sync_debug_mode("error")
        torch.Tensor.cpu = reading
        try:
            if batch.live:
                batch.iterate()
        finally:
            torch.Tensor.cpu = read
            torch.cuda.set_sync_debug_mode("default")
        assert len(waits) <= 1
