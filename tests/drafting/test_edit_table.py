"""Likely edits are made in a source, and their file says what they are or is refused."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_translation import EOS, dictionary

from fairseq_specdec.drafting.edit_table import COLUMNS, Edit, EditTable, read_edits, write_edits


def table(*edits):
    return EditTable(Edit(*edit) for edit in edits)


def edited(edits, *words):
    return edits.edited([EOS, *words, EOS])[1:-1]


def test_tokens_are_replaced_deleted_and_inserted():
    edits = table(((), 5, (), (6, 7), 1.0), ((), 8, (), (), 1.0), ((), 9, (), (9, 4), 1.0))
    assert edited(edits, 5, 4, 8, 9, 5) == [6, 7, 4, 9, 4, 6, 7]
    assert edited(edits, 4) == [4] and edited(edits) == [] and edited(edits, 8) == []


def test_tokens_around_decide():
    edits = table(((4,), 5, (6, 7), (9,), 0.5), ((EOS,), 5, (), (8,), 0.5))
    assert edited(edits, 4, 5, 6, 7) == [4, 9, 6, 7]
    assert edited(edits, 4, 5, 6, 8) == [4, 5, 6, 8] and edited(edits, 4, 5, 6) == [4, 5, 6]
    assert edited(edits, 5, 5) == [8, 5]
    at_the_end = table(((), 5, (EOS,), (5, 4), 0.5))
    assert edited(at_the_end, 5, 5) == [5, 5, 4]


def test_a_sentence_can_begin_with_what_is_inserted():
    edits = table(((), EOS, (5,), (EOS, 7, 8), 1.0))
    assert edits.edited([EOS, 5, 6, EOS]) == [EOS, 7, 8, 5, 6, EOS]
    assert edits.edited([EOS, 6, 5, EOS]) == [EOS, 6, 5, EOS]


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_edits_the_likeliest_is_made(order):
    three = [((), 5, (), (6,), 0.5), ((4,), 5, (), (7,), 0.7), ((), 5, (), (8,), 0.4)]
    edits = table(*three[::order])
    assert edited(edits, 4, 5) == [4, 7] and edited(edits, 9, 5) == [9, 6]
    assert len(edits) == 2  # of the same place only one


tokens = st.lists(st.integers(4, 27), max_size=2).map(tuple)
shares = st.integers(1, 1000).map(lambda n: n / 1000) | st.just(1e-5)
some_edits = st.lists(st.tuples(tokens, st.integers(4, 27), tokens, tokens, shares), max_size=9)


@given(some_edits, st.lists(st.integers(4, 27), max_size=9))
def test_a_file_says_what_was_written(tmp_path_factory, edits, source):
    path = tmp_path_factory.mktemp("edits") / "edits.tsv"
    stream = io.StringIO()
    write_edits([Edit(*each) for each in edits], dictionary(), stream)
    path.write_text(stream.getvalue(), encoding="utf-8")
    lines = stream.getvalue().split("\n")[1:-1]
    found = [float(line.split("\t")[-1]) for line in lines]
    assert found == sorted(found, reverse=True) and len(found) == len(edits)
    # Which of two of one place and share is made depends on their order, which the file has.
    ordered = sorted(edits, key=lambda each: (-each[-1], each))
    read, made = read_edits(str(path), dictionary()), table(*ordered)
    assert edited(read, *source) == edited(made, *source)


HEADER = "\t".join(COLUMNS)
MISTAKES = [
    ("", "is empty, not a table of edits"),
    ("w1\tw2\n", "its first line must be"),
    (HEADER + "\n\tw1\t\tw2\n", "line 2: has 4 columns instead of 5"),
    (HEADER + "\n\tw1\t\tw2\t1\n\tfoo\t\tw2\t1\n", "line 3: 'foo' is not in the model's"),
    (HEADER + "\n\tw1 w2\t\tw2\t1\n", "line 2: 'w1 w2' is not one token"),
    (HEADER + "\n\tw1\t\tw2\tmany\n", "line 2: share 'many': must be a number above 0"),
    (HEADER + "\n\tw1\t\tw2\t1.1\n", "line 2: share '1.1': must be a number above 0"),
    (HEADER + "\n\tw1\t\tw2\t0\n", "line 2: share '0': must be a number above 0"),
    (HEADER + "\n\tw1\t\tw2 </s>\t1\n", "line 2: 'w1' cannot become 'w2 </s>'"),
    (HEADER + "\n\t</s>\t\tw2\t1\n", "line 2: '</s>' cannot become 'w2'"),
    (HEADER + "\nw1 </s>\tw2\t\tw2\t1\n", "line 2: </s> may only be at the ends of a sentence"),
    (HEADER + "\n\tw2\t</s> w1\tw2\t1\n", "line 2: </s> may only be at the ends of a sentence"),
]


@pytest.mark.parametrize("text, message", MISTAKES)
def test_mistakes(tmp_path, text, message):
    path = tmp_path / "edits.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError) as raised:
        read_edits(str(path), dictionary())
    assert str(raised.value).startswith(f"--edits {path}") and message in str(raised.value)


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "edits.tsv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not text in UTF-8"):
        read_edits(str(path), dictionary())
    for path, reason in ((tmp_path / "none.tsv", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(
            ValueError, match=f"--edits .*: {reason}.*; .*specdec.data.edits writes one"
        ):
            read_edits(str(path), dictionary())
