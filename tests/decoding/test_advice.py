"""Advice at the end of a run, with the remedy."""

import re

import pytest

from fairseq_specdec.decoding.advice import advice
from fairseq_specdec.decoding.options import DecodingOptions
from fairseq_specdec.decoding.stats import DecodingStats

FEW = "nothing was drafted in {}% of the iterations, where drafts would have cost more time than "
FEW += "they save; try --batch-size 1"


@pytest.mark.parametrize(
    "strategy, lossless, options, figures, expected",
    [
        ("gad", True, {}, {}, None),
        ("gad++", False, {}, {}, "--strategy gad.. with these flags is relaxed: .* lossless"),
        ("nar", False, {"verifies": False}, {"drafted": 0}, "nar with these flags verifies nothi"),
        ("gad", True, {"verifier_format": "int8"}, {}, "--verifier-dtype int8: .*; fp32 keeps it"),
        ("gad", True, {}, {"undrafted": 19}, None),
        ("gad", True, {}, {"undrafted": 20}, FEW.format(20) + "$"),
        ("iad", True, {}, {"undrafted": 90}, FEW.format(90) + ", or the text copies little of"),
        ("bild", True, {}, {"undrafted": 90}, None),  # it drafts where it is unsure
        ("greedy", True, {}, {"undrafted": 100}, None),
        ("gad", True, {"beam": 5}, {"undrafted": 90}, None),
        ("gad", True, {}, {"undrafted": 49, "iterations": 49}, None),  # a short run
    ],
)
def test_what_is_advised(strategy, lossless, options, figures, expected):
    stats = DecodingStats(**{"iterations": 100, "drafted": 500, **figures})
    lines = advice(stats, strategy, DecodingOptions(strategy, **options), lossless)
    assert len(lines) == (expected is not None)
    if expected is not None:
        assert re.search(expected, lines[0])
