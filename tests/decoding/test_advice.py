"""Advice at the end of a run: by name for programs, with the remedy for people."""

from types import SimpleNamespace

import pytest

from fairseq_specdec.decoding.advice import advice
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.engine.work import Work


def figures(emitted=300, undrafted=0, drafter=1.0, verifier=4.0, iterations=100, drafted=500):
    stats = DecodingStats()
    stats.iterations, stats.emitted, stats.undrafted = iterations, emitted, undrafted
    stats.drafted, stats.sentences = drafted, 10
    stats.stopwatch.add("drafter", drafter)
    stats.stopwatch.add("verifier", verifier)
    return stats


OPTIONS = {"verifier_format": "fp32", "beam": 1, "verifies": True}


def names(stats, strategy="gad", lossless=True, **options):
    options = SimpleNamespace(**dict(OPTIONS, **options))
    return [each.name for each in advice(stats, strategy, options, lossless)]


def test_relaxed_output_and_other_formats_are_named():
    assert names(figures(), "gad++", lossless=False) == ["relaxed"]
    unverified = SimpleNamespace(**dict(OPTIONS, verifies=False))
    (alone,) = advice(figures(drafted=0), "nar", unverified, False)
    assert alone.name == "relaxed" and "verifies nothing" in alone.text
    assert names(figures(), verifier_format="int8") == ["format"]


@pytest.mark.parametrize(
    "megabytes, wide, lines",
    [(17, 1.0, ["wide_weights"]), (17, 0.6, ["wide_weights"]), (17, 0.4, []), (15, 1.0, [])],
)
def test_many_weights_in_32_bits(megabytes, wide, lines):
    """``wide``: the share of all bytes that are float32."""
    work, nbytes = Work(), megabytes << 20
    work.add("fp32", round(wide * nbytes / 4), round(wide * nbytes))
    work.add("halves", round((1 - wide) * nbytes / 2), round((1 - wide) * nbytes))
    stats = figures()
    stats.native_work = [work]
    assert names(stats) == lines and names(figures()) == []


@pytest.mark.parametrize("undrafted, lines", [(19, []), (20, ["undrafted"]), (90, ["undrafted"])])
def test_iterations_without_a_draft(undrafted, lines):
    assert names(figures(undrafted=undrafted)) == lines
    assert names(figures(undrafted=undrafted), "bild") == []  # it drafts where it is unsure


def test_what_to_do_about_it_is_what_helps():
    def remedy(strategy, number_format):
        options = SimpleNamespace(verifier_format=number_format, beam=1)
        return advice(figures(undrafted=90), strategy, options, True)[-1].text.split("; ", 1)[1]

    assert remedy("gad", "fp32") == "try --batch-size 1"
    assert remedy("iad", "int8").startswith("try --batch-size 1, or the text copies")
    assert remedy("gad", "int8") == "try --batch-size 1"


def test_a_weak_drafter():
    # 1.25 times the time of a step: 125 tokens in 100 iterations are where it begins to pay.
    assert names(figures(emitted=126)) == []
    assert names(figures(emitted=124)) == ["slower_than_greedy"]
    assert figures(emitted=124).as_dict()["greedy_is_faster"] == 1.0
    assert figures(emitted=126).as_dict()["greedy_is_faster"] == 0.0


def test_blocks_that_take_longer_than_steps():
    """By the cost model, less its error of a tenth: 1.25 * 1.76 / 1.1 = 2 steps."""

    def run(emitted):
        stats = figures(emitted=emitted)
        stats.scored = 600  # 6 tokens per row: in 20 passes 30, and 5 of one each
        stats.expect(lambda tokens: {30: 1.76, 5: 1.0}[tokens], passes=20)
        return stats

    assert run(200).draft_cost == pytest.approx(2.0)
    assert names(run(199)) == ["slower_than_greedy"] and names(run(201)) == []
    total = run(199)
    total.add(run(199))
    assert total.draft_cost == pytest.approx(2.0) and names(total) == ["slower_than_greedy"]


def test_a_batch_that_is_too_large_does_not_blame_the_drafter():
    assert names(figures(emitted=101, undrafted=90)) == ["undrafted"]


def test_greedy_beams_and_short_runs_get_none():
    weak = dict(emitted=101, undrafted=99, drafter=9.0)
    assert names(figures(drafted=0, **weak), "greedy") == []
    assert names(figures(**weak), beam=5) == []
    assert names(figures(iterations=49, emitted=49)) == []


def test_the_figures_are_added_and_listed():
    total = figures(undrafted=3)
    total.add(figures(undrafted=4))
    assert total.undrafted == 7 and total.as_dict()["undrafted_iterations"] == 7.0
    assert total.as_dict()["undrafted_share"] == pytest.approx(0.035)
    assert total.draft_cost == pytest.approx(1.25)
    assert DecodingStats().draft_cost == 1.0 and not DecodingStats().greedy_is_faster


def test_texts_name_a_remedy():
    options = SimpleNamespace(**dict(OPTIONS, verifier_format="bf16"))
    runs = (figures(emitted=100), figures(undrafted=50))
    lines = [each for run in runs for each in advice(run, "gad", options, lossless=False)]
    text = " ".join(each.text for each in lines)
    for word in ("lossless", "fp32", "--batch-size 1", "--strategy greedy", "50%"):
        assert word in text
