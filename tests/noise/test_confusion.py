"""Confusion sets: from the spell-checker, and from a file."""

import pathlib
import sys

import pytest

from fairseq_specdec.noise.confusion import (
    DICTIONARY,
    ConfusionFile,
    SpellChecker,
    _read_counts,
    describe,
)

COUNTS = "their 100\nthere 90\nthey're 20\nheir 5\nthen 50\nthan 40\nthem 30\nzebra 2\n"


@pytest.fixture
def speller(tmp_path):
    pytest.importorskip("jellyfish")
    pytest.importorskip("symspellpy")
    (tmp_path / "counts.txt").write_text(COUNTS)

    def make(size=20):
        return SpellChecker(size, str(tmp_path / "counts.txt"))

    return make


def test_neighbours_by_spelling_and_sound_the_nearest_first(speller):
    candidates = speller().candidates("their")
    # Edits of word and sound: there 2 + 0, heir 1 + 1, then and them 2 + 1, they're 3 + 0;
    # the more frequent of equals is first. zebra is too far away.
    assert candidates == ("there", "heir", "then", "them", "they're")
    assert speller(2).candidates("their") == candidates[:2]


def test_unknown_words_have_no_set_and_sets_are_kept(speller):
    checker = speller()
    assert checker.candidates("Debian") == () and checker.candidates("zebra") == ()
    assert checker.candidates("than") is checker.candidates("than")
    assert checker.vocabulary == sorted(line.split()[0] for line in COUNTS.splitlines())
    assert "z" in checker.letters and "'" not in checker.letters


def test_the_package_holds_a_dictionary():
    package = pytest.importorskip("symspellpy")
    path = pathlib.Path(package.__file__).with_name(DICTIONARY)
    counts = dict(_read_counts(str(path)))
    assert len(counts) > 50000 and counts["the"] > counts["then"] > 0


@pytest.mark.slow
def test_the_dictionary_of_the_package_serves():
    pytest.importorskip("jellyfish")
    pytest.importorskip("symspellpy")
    checker = SpellChecker()
    assert "then" in checker.candidates("than") and "there" in checker.candidates("their")
    assert len(checker.candidates("going")) == 20 and len(checker.vocabulary) > 50000


def test_a_file_of_sets_for_any_language(tmp_path):
    path = tmp_path / "sets.tsv"
    path.write_text("dass\tdas\tdes\n\nstatt\tstadt\n", encoding="utf-8")
    sets = ConfusionFile(str(path))
    assert sets.candidates("dass") == ("das", "des") and sets.candidates("das") == ()
    assert sets.vocabulary == ["das", "dass", "des", "stadt", "statt"]
    assert describe(20, "", str(path)) != describe(20, "", __file__)
    path.write_text("dass\tdas\nallein\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        ConfusionFile(str(path))


def test_a_dictionary_of_another_form_is_named(tmp_path):
    pytest.importorskip("jellyfish")
    pytest.importorskip("symspellpy")
    path = tmp_path / "words.txt"
    for text, why in (("word 12\nother\n", "line 2"), ("", "holds no")):
        path.write_text(text)
        with pytest.raises(ValueError, match=why):
            SpellChecker(20, str(path))


@pytest.mark.parametrize("name", ["symspellpy", "jellyfish"])
def test_without_the_packages_the_remedy_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=r"fairseq-specdec\[gec\].*--confusion-sets"):
        SpellChecker()
    with pytest.raises(ValueError, match=r"fairseq-specdec\[gec\]"):
        describe(20, "", "")
