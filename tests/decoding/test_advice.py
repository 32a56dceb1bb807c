"""Advice at the end of a run: by name for programs, with the remedy for people."""

from types import SimpleNamespace

import pytest

from fairseq_specdec.decoding.advice import advice
from fairseq_specdec.decoding.stats import DecodingStats


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


def test_many_weights_in_32_bits():
    stats = figures()
    stats.wide_weights = True
    assert names(stats) == ["wide_weights"] and names(figures()) == []


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


def test_texts_name_a_remedy():
    options = SimpleNamespace(**dict(OPTIONS, verifier_format="bf16"))
    runs = (figures(emitted=100), figures(undrafted=50))
    lines = [each for run in runs for each in advice(run, "gad", options, lossless=False)]
    text = " ".join(each.text for each in lines)
    for word in ("lossless", "fp32", "--batch-size 1", "50%"):
        assert word in text
