"""Cleaning, splitting and filtering of the demo corpus."""

import pytest
from corpus import text
from hypothesis import given
from hypothesis import strategies as st


@given(st.text())
def test_normalise_is_idempotent_and_leaves_one_line(raw):
    once = text.normalise(raw)
    assert text.normalise(once) == once
    assert once == " ".join(once.split())


def test_signs_and_languages():
    assert text.normalise(" a\u00a0b\u200bc \n d\u00ad ") == "a bc d"
    assert text.strip_markup("<b>P</b> &lt;i&gt;E&lt;/i&gt; &amp; w") == "P E & w"
    assert text.looks_like("Die Datei ist nicht", "en")  # too short to tell
    assert not text.looks_like("Die Datei ist nicht in dem Ordner und kann nicht", "en")


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One is here. Two is there! Three?", ["One is here.", "Two is there!", "Three?"]),
        ("See e.g. Chapter 2 of it. Then go.", ["See e.g. Chapter 2 of it.", "Then go."]),
        ("Am 3. Oktober kam er. Er ging.", ["Am 3. Oktober kam er.", "Er ging."]),
        ("version 1. 2 is not split", ["version 1. 2 is not split"]),
        ("", []),
    ],
)
def test_split_sentences(paragraph, expected):
    assert text.split_sentences(paragraph) == expected


def test_paragraphs_align_only_when_they_split_alike():
    assert text.align_paragraphs("Go on. Stop here.", "Mach weiter. Halte hier.") == [
        ("Go on.", "Mach weiter."),
        ("Stop here.", "Halte hier."),
    ]
    whole = ("Go on. Stop here.", "Mach weiter und halte hier.")
    assert text.align_paragraphs(*whole) == [whole]


GOOD = ("The file is not here, open 2 others.", "Die Datei ist nicht hier, öffne 2 andere.")


def test_a_translation_is_a_good_pair():
    assert text.is_good_pair(*GOOD, "de")


@pytest.mark.parametrize(
    ("english", "german", "why"),
    [
        ("", "x", "empty"),
        (GOOD[0], GOOD[0].lower(), "identical"),
        (GOOD[0], GOOD[1].replace("2", "3"), "numbers differ"),
        (GOOD[0] + " {x}", GOOD[1], "code"),
        (GOOD[0], "Öffne 2.", "lengths differ"),
        (GOOD[0], "The file is absent, please open 2 others.", "not translated"),
        ("1 2 3 4 5 %", "1 2 3 4 5 Prozent", "not text"),
        ("See ls(1) for the list.", "Siehe cp(1) für die Liste.", "identifiers differ"),
    ],
)
def test_a_bad_pair_is_refused(english, german, why):
    assert not text.is_good_pair(english, german, "de"), why
