"""The report of a distillation, in sentences."""

import logging

import pytest

from fairseq_specdec.data.distill import _tell
from fairseq_specdec.data.plan import REASONS
from fairseq_specdec.data.told import WORDS, dropped_many, told


def counts(kept, **reasons):
    reasons = dict(dict.fromkeys(REASONS[1:], 0), **reasons)
    lost = sum(reasons.values())
    return {"chosen": kept + lost, "kept": kept, "dropped": lost, "reasons": reasons}


def test_every_reason_has_words():
    assert set(WORDS) == set(REASONS[1:])


def test_nothing_dropped():
    assert told("out", counts(1200), "d.tsv") == (
        "out: 1,200 of 1,200 sentence pairs kept, none dropped"
    )


def test_reasons_come_by_their_number():
    said = told("out", counts(980, empty_source=5, length_limit=15), "d.tsv")
    assert said.startswith("out: 980 of 1,000 sentence pairs kept, 20 dropped (2.0%): 15 outputs ")
    assert said.index("length limit") < said.index("5 empty sources")
    assert said.endswith("They are in out/d.tsv") and "longer than" not in said


@pytest.mark.parametrize("lost, level", [(5, logging.INFO), (6, logging.WARNING)])
def test_more_than_5_percent_is_a_warning(lost, level, caplog):
    found = counts(100 - lost, length_limit=lost)
    assert dropped_many(found) == (level == logging.WARNING)
    with caplog.at_level(logging.INFO, "fairseq_specdec.data.distill"):
        _tell("out", found)
    (record,) = caplog.records
    assert record.levelno == level and "out/dropped.tsv" in record.getMessage()
    assert ("before training" in record.getMessage()) == (level == logging.WARNING)
