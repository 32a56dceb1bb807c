"""Known times, from the parts of the decoder to the table (Ge et al. 2022, Table 15)."""

import pytest
from toy_strategies import make_generator
from toy_translation import make_sample, sentences

from fairseq_specdec.bench import figures, tables, timing
from fairseq_specdec.bench.systems import Plan
from fairseq_specdec.decoding import batch, greedy, stats
from fairseq_specdec.drafting import nar_block
from fairseq_specdec.engine.backend import Backend
from fairseq_specdec.engine.eager.encoder import EncoderWeights
from fairseq_specdec.engine.torch_decoder import TorchDecoder
from fairseq_specdec.engine.transformer import Ensemble, Verifier

# Seconds that each call takes by the clock of these tests.
ENCODE, DRAFTER_ENCODE, DRAFT, SCORE, OPEN, FINISH = 2.0, 3.0, 5.0, 7.0, 11.0, 13.0


class Clock:
    """Stands still but for what the patched parts take."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    process_time = perf_counter

    def takes(self, monkeypatch, owner, name, seconds):
        inner = getattr(owner, name)

        def timed(*args, **kwargs):
            self.now += seconds
            return inner(*args, **kwargs)

        monkeypatch.setattr(owner, name, timed)


@pytest.fixture
def clock(monkeypatch, on_torch):
    made = Clock()
    for module in (stats, batch, timing):
        monkeypatch.setattr(module, "time", made)
    made.takes(monkeypatch, Verifier, "encode", ENCODE)
    made.takes(monkeypatch, Verifier, "open", OPEN)
    made.takes(monkeypatch, Ensemble, "score", SCORE)
    made.takes(monkeypatch, greedy, "hypothesis", FINISH)
    return made


def measured(case):
    """Row of one sentence decoded twice by a case of ``TOYS``, and its iterations."""
    made = make_generator(case)
    system = timing.System(case, made, made.models, made.stats)
    sample = make_sample([max(sentences(12, seed=7), key=len)])
    timing.run_paired([system], [sample], warm_up=1, repeats=2)
    plan = Plan(case, (), {"beam": 1, "nbest": 1}, settings={"strategy": made.strategy})
    row = figures.row(system, plan, system, {"beam5": system, "greedy": None})
    return row, made.stats.iterations / 2


def check(row, iterations, drafter_encoder, opening):
    seconds = {
        "encoder": ENCODE,
        "drafter_encoder": drafter_encoder,
        "drafter": DRAFT * iterations + opening,
        "verifier": SCORE * iterations + OPEN,
        "rest": FINISH,
    }
    assert row["ms_by_section"] == {name: pytest.approx(1000 * s) for name, s in seconds.items()}
    head, cells = tables.cells(tables.TIME, [row])
    shown, whole = dict(zip(head, cells)), sum(seconds.values())
    for name, spent in seconds.items():
        text = f"{1000 * spent:.2f} ({100 * spent / whole:.0f}%)"
        assert shown[name.replace("_", " ")] == text


def test_a_drafter_s_encoder_is_timed_apart(clock, monkeypatch):
    clock.takes(monkeypatch, nar_block.NarBlockSession, "propose", DRAFT)

    class Encoder(EncoderWeights):
        def __call__(self, *given):
            clock.now += DRAFTER_ENCODE
            return super().__call__(*given)

    class Decoder(TorchDecoder):
        def open(self, *args):
            clock.now += OPEN
            return super().open(*args)

    class Slow(Backend):
        def encoder(self, *args, **more):
            return Encoder(*args, **more)

        def decoder(self, decoder, read_layers=(), encoder=None):
            return Decoder(decoder, read_layers)

    prepare = nar_block.NarBlockDrafter.prepare
    monkeypatch.setattr(
        nar_block.NarBlockDrafter,
        "prepare",
        lambda self, verifier, backend: prepare(self, verifier, Slow()),
    )
    row, iterations = measured("gad")
    assert 1 < iterations < row["output_tokens"]
    check(row, iterations, DRAFTER_ENCODE, OPEN)


def test_a_drafter_without_an_encoder_has_no_such_time(clock, monkeypatch):
    clock.takes(monkeypatch, nar_block.NarBlockSession, "propose", DRAFT)
    row, iterations = measured("gad-attached")
    check(row, iterations, 0.0, 0.0)
