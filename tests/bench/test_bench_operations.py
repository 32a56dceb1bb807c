"""Operations of a row, against the passes that were made (Kim et al. 2023, Figure 8)."""

from types import SimpleNamespace

import pytest
from toy_strategies import make_generator
from toy_translation import make_sample, sentences

from fairseq_specdec.bench import timing
from fairseq_specdec.bench.figures import _iterations
from fairseq_specdec.bench.operations import operations, step_weights
from fairseq_specdec.drafting.autoregressive import AutoregressiveSession


def measured(case, sources, size=1, repeats=2, lossless=True):
    """A system that decoded these sources several times."""
    made = make_generator(case, lossless=lossless)
    system = timing.System(case, made, made.models, made.stats)
    batches = [make_sample(sources[i : i + size]) for i in range(0, len(sources), size)]
    for batch in range(len(batches)):
        batches[batch]["id"] += batch * size
    timing.run_paired([system], batches, warm_up=1, repeats=repeats)
    return system


def test_a_step_multiplies_every_matrix_but_those_of_the_source():
    decoder = make_generator("greedy").models[0].decoder
    width = decoder.embed_dim
    (hidden,) = {layer.fc1.out_features for layer in decoder.layers}
    # self-attention 4, cross-attention's query and output 2
    layer = 6 * width * width + 2 * width * hidden
    words = decoder.output_projection.out_features
    assert step_weights(decoder) == len(decoder.layers) * layer + words * width


def test_greedy_decoding_reads_each_weight_once_a_token():
    sources = sentences(6, seed=7)
    system = measured("greedy", sources)
    weights = step_weights(system.models[0].decoder)
    tokens = sum(map(len, system.tokens.values()))
    millions = pytest.approx(1e-6 * weights * tokens / len(sources))
    expected = {"multiply_adds_m": millions, "weights_read_m": millions}
    assert operations(system, "greedy") == expected


@pytest.mark.parametrize("case", ["sps", "bild", "bild-early-exit"])
def test_small_and_big_model_are_counted(case, monkeypatch):
    calls = SimpleNamespace(steps=0)
    inner = AutoregressiveSession.step_logits

    def counted(self, inputs, layout):
        calls.steps += 1
        return inner(self, inputs, layout)

    monkeypatch.setattr(AutoregressiveSession, "step_logits", counted)
    sources, repeats = sentences(6, seed=7), 2
    system = measured(case, sources, repeats=repeats)
    warm_up = measured(case, sources[:1], repeats=1).stats.draft_steps
    steps = calls.steps - 3 * warm_up  # one warm-up above, two passes over one sentence here
    stats, drafter = system.stats, system.generator.drafter
    big, small = (step_weights(m.decoder) for m in (system.models[0], drafter.model))
    count = 1e6 * repeats * len(sources)
    assert steps > 0 and stats.drafted > 0
    assert operations(system, system.generator.strategy) == {
        "multiply_adds_m": pytest.approx((big * stats.scored + small * steps) / count),
        "weights_read_m": pytest.approx((big * stats.iterations + small * steps) / count),
    }


@pytest.mark.parametrize("case", ["calm", "greedy"])
def test_tokens_that_left_early_are_counted(case):
    """Kim et al. 2023, Figure 7."""
    system = measured(case, sentences(6, seed=7), lossless=False)
    plan = SimpleNamespace(settings={"strategy": case}, generation={"beam": 1})
    figures = _iterations(system, plan)
    if case == "greedy":
        assert figures["early_exit_percent"] is None and figures["layers"] is None
    else:
        assert 0 < figures["early_exit_percent"] < 100 and 1 < figures["layers"] < 3
        assert figures["layers"] == system.stats.layers_run / system.stats.emitted


@pytest.mark.parametrize(("case", "size"), [("gad", 1), ("greedy", 2), ("calm", 1)])
def test_what_is_not_counted_has_no_figure(case, size):
    system = measured(case, sentences(4, seed=7), size=size)
    assert set(operations(system, system.generator.strategy).values()) == {None}


def test_an_adaptive_softmax_has_no_figure():
    system = measured("greedy", sentences(2, seed=7))
    system.models = [SimpleNamespace(decoder=SimpleNamespace(output_projection=None))]
    assert set(operations(system, "greedy").values()) == {None}
