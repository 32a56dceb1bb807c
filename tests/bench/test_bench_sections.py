"""Known times, from the parts of the decoder to the table (Ge et al. 2022, Table 15)."""

import pytest
from toy_strategies import make_generator
from toy_translation import make_sample, sentences

from fairseq_specdec.bench import figures, tables, timing
from fairseq_specdec.bench.systems import Plan
from fairseq_specdec.decoding import batch, greedy, stats
from fairseq_specdec.drafting import nar_block
from fairseq_specdec.engine.torch_decoder import EncoderWeights
from fairseq_specdec.engine.transformer import Ensemble, Verifier

# Seconds that each call takes by the clock of these tests.
ENCODE, DRAFT, SCORE, OPEN, FINISH = 2.0, 5.0, 7.0, 11.0, 13.0


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


@pytest.mark.parametrize("case", ["gad", "gad-attached"])
def test_each_part_has_its_time(clock, monkeypatch, case):
    """A drafter that has an encoder of its own shows its time apart."""
    clock.takes(monkeypatch, nar_block.NarBlockSession, "propose", DRAFT)
    clock.takes(monkeypatch, EncoderWeights, "__call__", ENCODE)
    row, iterations = measured(case)
    own = ENCODE if case == "gad" else 0.0
    seconds = {
        "encoder": ENCODE,
        "drafter_encoder": own,
        "drafter": DRAFT * iterations,
        "verifier": SCORE * iterations + OPEN,
        "rest": FINISH,
    }
    assert row["ms_by_section"] == {name: pytest.approx(1000 * s) for name, s in seconds.items()}
    head, cells = tables.cells(tables.TIME, [row])
    shown, whole = dict(zip(head, cells)), sum(seconds.values())
    for name, spent in seconds.items():
        text = f"{1000 * spent:.2f} ({100 * spent / whole:.0f}%)"
        assert shown[name.replace("_", " ")] == text
