"""``fairseq_specdec.data.edits`` learns what a model makes of its sources, or says why not."""

import pathlib
import shutil

import pytest
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.data import edits
from fairseq_specdec.data.edits import aligned, learn
from fairseq_specdec.drafting.edit_table import Edit, read_edits

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "data-bin" / "demo_edit"
HERE = ["-s", "src", "-t", "tgt", "--gen-subset", "test"]
EOS = 2

text = st.lists(st.integers(4, 7), max_size=12)

PROGRAM = "python -m fairseq_specdec.data.edits"


@given(text, text)
def test_the_parts_are_the_output(source, output):
    parts = aligned([EOS, *source], [EOS, *output])
    assert len(parts) == 1 + len(source) and parts[0][0] == EOS
    assert [token for part in parts for token in part] == [EOS, *output]
    for part, token in zip(aligned([EOS, *source], [EOS, *source]), [EOS, *source]):
        assert part == (token,)


def test_what_became_of_each_token():
    def parts(source, output):
        return aligned([EOS, *source], [EOS, *output])

    assert parts([4, 5, 6], [4, 6]) == [(EOS,), (4,), (), (6,)]
    assert parts([4, 5, 6], [4, 5, 7, 6]) == [(EOS,), (4,), (5, 7), (6,)]
    assert parts([4, 5], [7, 4, 5]) == [(EOS, 7), (4,), (5,)]
    assert parts([4, 5, 5, 6], [4, 7, 6]) == [(EOS,), (4,), (7,), (), (6,)]
    assert parts([4, 5, 6], [4, 7, 8, 9, 6]) == [(EOS,), (4,), (7, 8, 9), (6,)]


def pairs_of(*changes):
    """Sources and outputs with both ends."""
    return [((EOS, *source, EOS), (EOS, *output, EOS)) for source, output in changes]


ALWAYS = [([4, 5, 6], [4, 9, 6])] * 9
MIXED = [([4, 5, 6], [4, 9, 6])] * 19 + [([7, 5, 6], [7, 5, 6])] * 19
TWO = [([4, 5], [4, 9])] * 90 + [([6, 5], [6, 8])] * 9


@pytest.mark.parametrize(
    "changes, context, share, least, expected",
    [
        (ALWAYS, 2, 0.8, 9, [Edit((), 5, (), (9,), 0.9)]),
        (ALWAYS, 2, 0.9, 3, []),  # 9 of 9 + 1 are not more
        (ALWAYS, 2, 0.8, 10, []),
        ([([4, 5], [4, 5])] * 9, 2, 0.1, 1, []),
        # Neighbours are asked where a token alone does not tell.
        (MIXED, 2, 0.8, 3, [Edit((4,), 5, (), (9,), 0.95)]),
        (MIXED, 0, 0.8, 3, []),
        (MIXED, 0, 0.4, 3, [Edit((), 5, (), (9,), 19 / 39)]),
        # Another edit between other tokens is kept.
        (TWO, 1, 0.8, 3, [Edit((), 5, (), (9,), 0.9), Edit((6,), 5, (), (8,), 0.9)]),
    ],
)
def test_edits_that_are_made_nearly_always(changes, context, share, least, expected):
    assert learn(pairs_of(*changes), context, share, least) == expected


@pytest.fixture
def run(tmp_path):
    def command(*words, data=DEMO, out=tmp_path / "edits.tsv"):
        edits.cli_main([str(data), "--out", str(out), *words])
        return out

    return command


def test_the_demo_pairs_edits(run):
    out = run(*HERE, "--share", "0.5", "--least", "2")
    words = Dictionary.load(str(DEMO / "dict.src.txt"))
    known = read_edits(str(out), words)
    assert len(known) == len(out.read_text(encoding="utf-8").split("\n")) - 2 > 20
    source = [words.index(word) for word in "</s> is used too open it </s>".split()]
    assert [words[token] for token in known.edited(source)][1:-1] == "is used to open it".split()


@pytest.mark.parametrize(
    "words, places, message",
    [
        (HERE, {"out": DEMO / "codes"}, "codes: exists; --force replaces it"),
        ([*HERE, "--least", "400"], {}, "no edit is made 400 times in more than 0.8 of its places"),
        (HERE, {"data": "two"}, "source and target have two dictionaries"),
    ],
)
def test_mistakes(run, tmp_path, monkeypatch, words, places, message):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DEMO, "two", ignore=shutil.ignore_patterns("*.pt", "history"))
    with open("two/dict.tgt.txt", "a", encoding="utf-8") as stream:
        stream.write("of-the-target 1\n")
    with pytest.raises(SystemExit) as ended:
        run(*words, **places)
    line = str(ended.value.code)
    assert line.startswith(PROGRAM + ": error: ") and message in line and "\n" not in line
    assert [path.name for path in tmp_path.iterdir()] == ["two"]
