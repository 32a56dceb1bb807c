"""Times of a verifier and its drafter, from the work of their weights."""

import json
import types

import pytest
import torch
from on_gpu import on_gpu
from toy_strategies import TOYS, decode, flags, make_generator, stock, tokens
from toy_translation import assert_diverse, make_sample, sentences

from fairseq_specdec.costs import devices
from fairseq_specdec.costs.figures import save
from fairseq_specdec.costs.passes import linear
from fairseq_specdec.costs.tables import shipped
from fairseq_specdec.decoding import planning
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.draft_budget import FewRejections
from fairseq_specdec.decoding.draft_plan import LONGEST, Planner
from fairseq_specdec.drafting import InputCopyDrafter
from fairseq_specdec.engine.native import library

SENTENCES = sentences(12, seed=7)


@pytest.fixture
def native():
    if library.load() is None:
        pytest.skip(library.why_not())


def ready(case, **settings):
    """A generator that has read its weights."""
    made = make_generator(case, **{"draft_budget": None, **settings})
    decode(made, make_sample(SENTENCES))
    return made


@pytest.mark.parametrize("case", ["gad", "gad-attached", "iad", "sps", "blockwise"])
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_exact_strategies_plan(case, backend, native):
    planning = ready(case, backend=backend)._parts.planning
    assert isinstance(planning, Planner)
    times = planning.times
    for few, many in ((1, 2), (2, 9), (9, 70)):
        assert 0 < times.verifying(few) <= times.verifying(many)
        free = case == "iad"
        assert (times.drafting(1, few) == times.drafting(1, many)) == free
        assert (times.drafting(1, few) == 0) == free
        assert free or times.drafting(1, few) < times.drafting(1, many)
        assert free or times.drafting(few, 2) < times.drafting(many, 2)


@pytest.mark.parametrize(
    "settings, kind",
    [({}, Planner), ({"draft_budget": 24}, FewRejections), ({"draft_budget": 0}, type(None))],
)
def test_a_budget_that_is_asked_for_decides(settings, kind):
    assert type(ready("gad", **settings)._parts.planning) is kind


def test_work_is_that_of_the_weights(native):
    made = ready("gad", backend="native")
    decoder = made.models[0].decoder
    layers, end, vocabulary = made._parts.verifier.work()
    matrices = {
        (i, name): each.weight.numel()
        for i, layer in enumerate(decoder.layers)
        for name, each in layer.named_modules()
        if name.split(".")[-1] in ("q_proj", "out_proj", "fc1", "fc2")
        or name in ("self_attn.k_proj", "self_attn.v_proj")
    }
    last, own = len(decoder.layers) - 1, {f"self_attn.{part}_proj" for part in "qkv"}
    after = sum(size for (i, name), size in matrices.items() if i == last and name not in own)
    whole = sum(matrices.values())
    assert sum(end.multiply_adds.values()) == after > 0
    assert sum(layers.multiply_adds.values()) == whole - after > 0
    assert layers.breadth == last * end.breadth > 0
    assert sum(vocabulary.multiply_adds.values()) == decoder.output_projection.weight.numel()
    for work in (layers, end):
        halves, others = (work.multiply_adds.get(name, 0) for name in ("halves", "fp32"))
        assert work.nbytes == 2 * halves + 4 * others
    int8 = ready("gad", backend="native", verifier_dtype="int8")._parts.verifier.work()[0]
    assert set(int8.multiply_adds) == {"int8"} and int8.nbytes == whole - after


def test_a_call_an_iteration_is_charged_with_drafts_and_without(native):
    apart, chained = (
        ready("iad", backend="native", args=flags(no_repeat_ngram_size=n))._parts.planning.times
        for n in (3, 0)
    )
    more = apart.verifying(1) - chained.verifying(1)
    assert more > 1e-5 and apart.verifying(9) - chained.verifying(9) == pytest.approx(more)
    assert apart.beside == 0 < chained.beside < more


def test_copies_that_cost_nothing_are_whole(native, tmp_path):
    """A pass takes its start, however many tokens it is over."""
    path = str(tmp_path / "costs.json")
    save(shipped()._replace(start=1e3), path)
    planning = ready("iad", backend="native", cost_table=path)._parts.planning
    first = InputCopyDrafter.first_chance
    assert [planning.plan(rows, first).size for rows in (1, 32)] == [LONGEST, LONGEST]


def test_a_cost_table_decides_and_the_output_stays(native, tmp_path):
    """Passes that take the time of their rows, and passes that take a start."""
    sample, drafted = make_sample(SENTENCES), []
    for name, start in (("rows", 1e-12), ("start", 1e3)):
        path = str(tmp_path / name)
        save(shipped()._replace(start=start), path)
        made = make_generator("gad", draft_budget=None, cost_table=path, backend="native")
        expected = tokens(stock(made.models, sample, flags()))
        assert tokens(decode(made, sample)) == expected
        assert_diverse(expected)
        drafted.append(made.stats.drafted)
    assert drafted[0] < drafted[1]


def test_passes_over_whole_drafts_are_compared_with_steps(monkeypatch):
    """A pass that takes as long as it has tokens: as many as were scored, or one of each row."""
    monkeypatch.setattr(planning, "times", lambda *given: linear(1.0, 0.0))
    stats = ready("gad", draft_budget=0).stats
    assert stats.block_seconds == pytest.approx(stats.scored)
    assert stats.step_seconds == pytest.approx(stats.iterations) and stats.scored > stats.iterations
    assert ready("greedy").stats.step_seconds == 0.0  # nothing was drafted


def test_a_file_that_is_none_is_refused_before_anything_is_read(native):
    with pytest.raises(ValueError, match=r"nowhere.json: no figures .*No such file"):
        make_generator("gad", draft_budget=None, cost_table="nowhere.json", backend="native")


def test_on_torch_a_measured_device_decides(monkeypatch, tmp_path):
    sample, drafted = make_sample(SENTENCES), []
    for column in (0.01, 100.0):
        path = tmp_path / f"{column}.json"
        row = devices.Device("cpu", "float32", 1, 1 << 30, column, 0.2)
        path.write_text(f"[{json.dumps(row._asdict())}]")
        monkeypatch.setattr(devices, "TABLE", path)
        made = make_generator("gad", draft_budget=None, backend="torch")
        assert tokens(decode(made, sample)) == tokens(stock(made.models, sample, flags()))
        drafted.append(made.stats.drafted)
    assert drafted[1] < drafted[0]


@pytest.mark.parametrize("case, whole", [("gad", True), ("sps", False), ("iad", False)])
def test_a_gpu_drafts_whole_blocks(case, whole):
    generator = make_generator(case, draft_budget=None, backend="torch")
    parts, model = ready(case, backend="torch")._parts, TOYS[case].verifier()
    weight = on_gpu(torch.zeros(1))
    card = types.SimpleNamespace(parameters=lambda: iter([weight]), decoder=model.decoder)
    verifier = types.SimpleNamespace(models=[card], work=lambda: None)
    given = (generator.drafter, parts.drafter, generator.options)
    assert planning.planning_for(verifier, *given).whole == whole
    assert not planning.planning_for(parts.verifier, *given).whole


def test_drafts_end_where_a_token_does_not_pay_unless_a_flag_sets_where(native):
    drafted = []
    for backend in ("native", "torch"):
        for least in (None, 0.0):
            made = make_generator(
                "gad-attached", draft_budget=None, draft_confidence=least, backend=backend,
                overrides=Overrides(planning=Planner(linear(0.1, 0.01), 4, True)),
            )  # fmt: skip
            decode(made, make_sample(SENTENCES[:1]))
            drafted.append(made.stats.drafted / made.stats.iterations)
    assert drafted[0] < drafted[1] and drafted[2] < drafted[3]
    assert drafted[0] == pytest.approx(drafted[2]) and drafted[1] == pytest.approx(drafted[3])
    assert ready("gad++", draft_confidence=None)._parts.drafter.options.confidence == 0.0
