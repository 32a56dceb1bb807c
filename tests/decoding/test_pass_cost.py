"""What passes cost: the constants of the native backend, and the table of measured devices."""

import json

import pytest
import torch
from toy_strategies import decode, flags, make_generator, stock, tokens
from toy_translation import assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.decoding import pass_cost
from fairseq_specdec.decoding.pass_cost import Measured, PassCost
from fairseq_specdec.engine.eager.decoder import layer_bytes
from fairseq_specdec.engine.native import library

SENTENCES = sentences(12, seed=7)
TOY = Measured("cpu", "torch", "float32", 1, 1 << 30, 0.05, 0.5)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Puts rows in place of the table that is shipped."""

    def put(*rows):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps([row._asdict() for row in rows]))
        monkeypatch.setattr(pass_cost, "TABLE", path)

    return put


def generator_of(case="gad", **settings):
    """A generator that has decoded a batch."""
    made = make_generator(case, **{"draft_budget": None, "backend": "torch", **settings})
    decode(made, make_sample(SENTENCES))
    return made


@pytest.mark.parametrize("live", [1, 2, 8, 32])
@pytest.mark.parametrize("chance", [0.3, 0.75, 0.97])
@pytest.mark.parametrize("column", [0.0, 0.05, 0.4])
def test_the_best_draft_emits_most_in_its_time(live, chance, column):
    """Against every size, in tokens by sums and passes by their definition."""
    cost = PassCost(column, 0.5)

    def rate(size):
        emitted = live * sum(chance**j for j in range(size + 1))
        verifying = 1 + column * (live * (size + 1) - 1)
        drafting = 0.5 * (1 + column * (live * size - 1)) if size else 0
        return emitted / (verifying + drafting)

    found = cost.best(live, chance)
    assert rate(found) == pytest.approx(max(map(rate, range(256))))
    gain = rate(found) / rate(0)
    if found:
        assert cost.best(live, chance, 0.99 * gain) == found
        assert cost.best(live, chance, 1.01 * gain) == 0


def test_of_drafts_as_good_the_shortest_is_made():
    free = PassCost(0.0, 0.0)
    assert free.best(3, 0.0) == 0 and 0 < free.best(3, 0.01) < 10  # more say the same to the bit


def test_a_given_budget_or_the_torch_backend_leaves_cost_aside(monkeypatch):
    if library.load() is None:
        pytest.skip(library.why_not())
    monkeypatch.setattr(pass_cost, "SMALLEST", 1000)
    for settings, by_cost in (
        ({"draft_budget": None}, True),
        ({"draft_budget": 24}, False),
        ({"draft_budget": None, "backend": "torch"}, False),
        ({}, False),
    ):
        for case in ("gad", "iad"):
            generator = make_generator(case, **settings)
            decode(generator, make_sample(SENTENCES))
            assert (generator._parts.cost is not None) == (by_cost and case == "gad")
    monkeypatch.setattr(pass_cost, "CACHE", 1000)  # a model that is too large for it
    generator = make_generator("gad", draft_budget=None)
    decode(generator, make_sample(SENTENCES))
    assert generator._parts.cost is None


@pytest.mark.parametrize("number_format, alone", [("fp32", True), ("bf16", True), ("int8", False)])
def test_natively_decoders_that_the_cache_holds_have_a_cost(
    table, number_format, alone, monkeypatch
):
    """From the size where a pass costs more than to start it, to that of the cache."""
    if library.load() is None:
        pytest.skip(library.why_not())
    table()
    made = generator_of(backend="native", verifier_dtype=number_format)
    verifier = made._parts.verifier
    size = verifier.weights[0].layers.nbytes
    for smallest, cache, known in (
        (size, size, True),
        (size + 1, 2 * size, False),
        (1, size - 1, False),
    ):
        monkeypatch.setattr(pass_cost, "SMALLEST", smallest)
        monkeypatch.setattr(pass_cost, "CACHE", cache)
        found = pass_cost.pass_cost(verifier, made.drafter)
        assert (found is not None) == known
        assert not known or (0 < found.drafter <= 1 and found.alone == alone)
    assert pass_cost.pass_cost(verifier, make_generator("iad").drafter) is None


def test_beside_a_small_verifier_in_int8_nothing_is_drafted(monkeypatch):
    """One sentence at a time, too; --draft-budget drafts all the same."""
    if library.load() is None:
        pytest.skip(library.why_not())
    monkeypatch.setattr(pass_cost, "SMALLEST", 0)
    sample = make_sample(SENTENCES[:1])
    drafted = []
    for settings in (
        {"verifier_dtype": "fp32"},
        {"verifier_dtype": "int8"},
        {"verifier_dtype": "int8", "draft_budget": 24},
    ):
        made = make_generator("gad", **{"draft_budget": None, "backend": "native", **settings})
        plain = make_generator("greedy", backend="native", **{**settings, "draft_budget": None})
        assert tokens(decode(made, sample)) == tokens(decode(plain, sample))
        drafted.append(made.stats.drafted)
    assert drafted[0] > 0 == drafted[1] < drafted[2]


def test_a_measured_device_drafts_by_its_cost_and_says_the_same(table):
    sample = make_sample(SENTENCES)
    by_count = generator_of()
    table(TOY)
    by_cost = make_generator("gad", draft_budget=None, backend="torch")
    expected = tokens(stock(by_cost.models, sample, flags()))
    assert tokens(decode(by_cost, sample)) == expected
    assert_diverse(expected)
    assert by_cost._parts.cost == PassCost(0.05, 0.5) and by_count._parts.cost is None
    assert by_cost.stats.drafted != by_count.stats.drafted
    table(TOY._replace(column=100.0))
    dear = generator_of()
    assert dear.stats.drafted < 0.3 * by_cost.stats.drafted


def test_drafts_end_where_a_token_does_not_pay_unless_a_flag_says_where(table):
    table(TOY._replace(least_chance=0.6))
    by_cost, whole, asked = (
        generator_of("gad-attached", draft_budget=None, draft_confidence=least)
        for least in (None, 0.0, 0.6)
    )
    assert by_cost.stats.drafted == asked.stats.drafted < whole.stats.drafted
    assert generator_of("gad-attached", draft_confidence=None, draft_budget=24).stats.drafted > (
        by_cost.stats.drafted
    )
    relaxed = {"draft_budget": None, "draft_confidence": None}
    assert generator_of("gad++", **relaxed)._parts.drafter.options.confidence == 0.0


@pytest.mark.parametrize(
    "other",
    [
        {"device": "Abacus"},
        {"backend": "native"},
        {"dtype": "float16"},
        {"least": 1 << 29},
        {"most": 1000},
    ],
)
def test_what_the_table_does_not_know_keeps_the_constants(table, other):
    table(TOY._replace(**other))
    made, before = generator_of(), make_generator("gad", draft_budget=None, backend="torch")
    assert made._parts.cost is None and made.options == before.options
    table(TOY._replace(**other), TOY._replace(dtype="any"))
    assert generator_of()._parts.cost == PassCost(0.05, 0.5)


@pytest.mark.parametrize(
    "case, settings",
    [("iad", {}), ("greedy", {}), ("gad", {"draft_budget": 0}), ("gad", {"draft_budget": 24})],
)
def test_a_flag_or_a_drafter_that_is_no_model_leaves_the_table_aside(table, case, settings):
    table(TOY)
    assert generator_of(case, **settings)._parts.cost is None


def test_the_size_is_that_of_all_layers(table):
    model = toy_model()
    size = sum(4 * each.numel() for each in model.decoder.layers.parameters())
    assert layer_bytes(model.decoder) == size > 1000
    limits = (size, size, True), (size + 1, 2 * size, False), (1, size - 1, False)
    for least, most, known in limits:
        table(TOY._replace(least=least, most=most))
        assert (generator_of()._parts.cost is not None) == known


def test_graphs_pay_up_to_the_rows_that_the_table_says(table):
    """Of an ensemble all layers count; a row that does not speak of graphs says that none pay."""
    one = [toy_model(updates=1)]
    for models in (one, 2 * one):
        size = sum(layer_bytes(model.decoder) for model in models)
        here = TOY._replace(least=size, most=size)
        for row, most in (
            (here._replace(graphs=8), 8),
            (here, 0),
            (here._replace(graphs=8, least=size + 1, most=2 * size), 0),
            (here._replace(graphs=8, backend="native"), 0),
            (here._replace(graphs=8, dtype="float16"), 0),
            (here._replace(graphs=8, device="Abacus"), 0),
        ):
            table(row)
            assert pass_cost.rows_for_graphs(models) == most
    table()
    assert pass_cost.rows_for_graphs(one) == 0


def test_new_rows_replace_those_of_the_same_place():
    other = TOY._replace(device="Abacus")
    newer = TOY._replace(column=0.2, least=7)
    assert pass_cost.merged([TOY, other], [newer]) == (other, newer)
    half = TOY._replace(dtype="float16")
    assert pass_cost.merged([TOY], [half]) == (TOY, half)


def test_the_table_that_is_shipped_can_be_read():
    for row in pass_cost.read(pass_cost.TABLE):
        assert row.device and row.backend == "torch" and 0 < row.least <= row.most
        assert row.column >= 0 and row.drafter > 0


def test_what_a_row_does_not_say_was_not_measured(tmp_path):
    path = tmp_path / "x.json"
    said = dict(TOY._asdict())
    del said["graphs"], said["least_chance"]
    path.write_text(json.dumps([said]))
    (row,) = pass_cost.read(path)
    assert (row.graphs, row.least_chance) == (0, 0.0)


@pytest.mark.parametrize("text", ["", "[1]", '[{"device": "cpu"}]'])
def test_what_is_no_table_is_named(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="x.json: no table as make gpu writes it"):
        pass_cost.read(path)


def test_devices_by_name(monkeypatch):
    assert pass_cost.device_name(torch.device("cpu")) == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pass_cost.device_name(torch.device("cuda", 0)) == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    assert pass_cost.device_name(torch.device("cuda", 1)) == "card 1"
