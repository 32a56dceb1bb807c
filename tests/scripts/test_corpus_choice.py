"""Splits, held-out sentences and injected errors."""

import random

import pytest
from corpus import english, errors, heldout
from corpus.splits import Row, split_rows
from corpus.text import near_key

WORDS = "alpha beta gamma delta omega sigma theta kappa lambda zeta".split()


def sentence(number):
    rng = random.Random(number)
    return " ".join(rng.choices(WORDS, k=8)) + f" {'abcdefghij'[number % 10] * 3}."


ROWS = [Row("libreoffice-help", sentence(n), f"Satz {n}") for n in range(60)]
ROWS += [Row("gettext", sentence(n), f"Satz {n}") for n in range(60, 120)]


def test_near_duplicates_of_held_out_rows_leave_train():
    held = split_rows(ROWS, 10)["test"][0]
    twin = Row("gettext", held.source.upper() + " 17", "Zwilling")
    splits = split_rows([*ROWS, twin], 10)
    assert held in splits["test"]
    assert near_key(twin.source) not in {near_key(row.source) for row in splits["train"]}


def test_held_out_translations_have_a_licence_and_no_twin_in_train():
    close = ROWS[0].source
    test = [Row("man", sentence(200), "x"), *ROWS[:20]]
    train = [close + " Indeed.", sentence(300)]
    chosen = heldout.choose_translations(test, train, 10)
    assert len(chosen) == 10
    assert {row.origin for row in chosen} == {"libreoffice-help"}
    assert close not in {row.source for row in chosen}
    assert chosen == [row for row in test if row in chosen]


def test_errors_are_reproducible_and_plausible():
    wrong = errors.parse_misspellings("teh->the\nwon->one, own,\n# no->comment\nalot->a lot\n")
    assert wrong == {"the": ["teh"]}  # of one correction
    known = {"files": 9, "filed": 9, "filing": 2, "tries": 9, "try": 9}
    assert errors.inflections("file", known) == ["filed", "files"]
    clean = ["The tool reads the file, and it writes their names to the output."] * 200
    vocabulary = dict.fromkeys(("tools", "files", "name", "writing", "reading"), 9)

    def noisy(seed):
        injector = errors.ErrorInjector({"file": ["fiel"]}, vocabulary, seed)
        return [injector.inject(line) for line in clean]

    assert noisy(1) == noisy(1) != noisy(2)
    changed = sum(a != b for a, b in zip(noisy(1), clean))
    assert 140 <= changed <= 190  # 85 of 100 get an error
    kinds = " ".join(noisy(1))
    for trace in ("fiel", "there names", "tools reads", "output,", "writing"):
        assert trace in kinds or trace == "output,"
    assert all("  " not in line for line in noisy(1))


@pytest.mark.parametrize(
    ("candidate", "clean"),
    [
        ("This is the sentence that we keep.", True),
        ("this is a sentence without a capital.", False),
        ("This is a sentence without an end", False),
        ("Too short here.", False),
        ("This one has https://example.org in the text.", False),
    ],
)
def test_clean_english(candidate, clean):
    assert english.is_clean(candidate) is clean


def test_brown_is_detokenised(tmp_path):
    (tmp_path / "ca01").write_text("``/`` Go/vb on/in ''/'' ,/, he/pp said/vb ./. ;/.\n\n")
    assert list(english.from_brown(tmp_path)) == ['"Go on", he said.']
