"""Max-match: the official example, cases counted by hand, and a search over all paths."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from m2 import Counts, Edit, Sentence, arcs, match, parse, read, score
from recipe_parts import OFFICIAL, SYSTEM


def test_the_official_example():
    counts = score(SYSTEM, parse(OFFICIAL))
    assert counts == Counts(correct=4, proposed=5, gold=5)  # as its explanation counts them
    assert (counts.precision, counts.recall) == (0.8, 0.8)
    assert counts.f == pytest.approx(0.8)


def counts_of(source, output, *gold):
    edits = tuple(Edit(start, end, texts) for start, end, *texts in gold)
    return score([output], [Sentence(tuple(source.split()), {0: edits})])


@pytest.mark.parametrize(
    "source, output, gold, counts",
    [
        # One gold edit over three words, of which the middle one stays; or two single edits, if
        # those are what the annotator made. Two unchanged words are the most to join over.
        ("a q x r e", "a b x d e", [(1, 4, "b x d")], (1, 1, 1)),
        ("a q x r e", "a b x d e", [(1, 2, "b"), (3, 4, "d")], (2, 2, 2)),
        ("q x y r", "b x y d", [(0, 4, "b x y d")], (1, 1, 1)),
        ("q x y z r", "b x y z d", [(0, 5, "b x y z d")], (0, 2, 1)),
        # Without agreement the plainest edits count; neighbouring ones that match nothing are one.
        ("a b c", "a x c", [(0, 1, "y")], (0, 1, 1)),
        ("a b c", "a b c", [], (0, 0, 0)),
        ("a b c", "a b c", [(0, 1, "x")], (0, 0, 1)),
        ("a b c d", "a x y d", [(0, 1, "z")], (0, 1, 1)),
        # Insertions at one place count once each and in order.
        ("a b", "a x y b", [(1, 1, "x"), (1, 1, "y")], (2, 2, 2)),
        ("a b", "a y x b", [(1, 1, "x"), (1, 1, "y")], (1, 2, 2)),
        ("a b", "a x x b", [(1, 1, "x")], (1, 2, 1)),
        ("a b", "a x y b", [(1, 1, "x y")], (1, 1, 1)),
        # "c x" between two insertions of a word agrees, or an "x" after one of three words: one
        # edit fewer, and yet three unit steps outside for two.
        ("", "c c x x", [(0, 0, "x"), (0, 0, "c x")], (1, 3, 2)),
        # Deletions, substitutions, which may be a deletion and an insertion, and empty sides.
        ("a b c", "a c", [(1, 2, "")], (1, 1, 1)),
        ("a b c", "a c", [(1, 3, "c")], (1, 1, 1)),
        ("", "a", [(0, 0, "a")], (1, 1, 1)),
        ("a b", "", [(0, 2, "")], (1, 1, 1)),
        ("a b", "a c", [(1, 2, "b", "c", "d")], (1, 1, 1)),
        ("a b c", "a x c", [(1, 2, ""), (2, 2, "x")], (2, 2, 2)),
    ],
)
def test_the_path_that_agrees_most_counts(source, output, gold, counts):
    assert counts_of(source, output, *gold) == counts


def test_the_annotator_that_serves_the_whole_is_taken():
    two = "S a b\nA 0 1|||T|||x|||R|||-|||0\nA 1 2|||T|||y|||R|||-|||1\n"
    sentences = parse(two)
    assert score(["x b"], sentences) == (1, 1, 1)
    assert score(["a y"], sentences) == (1, 1, 1)
    assert score(["a b"], sentences) == (0, 0, 1)
    # Nothing done, and one annotator did nothing either: nothing is counted against it.
    noop = "S a b\nA 0 1|||T|||x|||R|||-|||0\nA -1 -1|||noop|||-NONE-|||R|||-|||1\n"
    assert score(["a b"], parse(noop)) == (0, 0, 0)


word = st.sampled_from("abc")


def all_paths(lattice, node, end):
    if node == end:
        yield []
    for arc in lattice[node]:
        for rest in all_paths(lattice, arc.to, end):
            yield [(node, arc), *rest]


def by_hand(source, output, gold, lattice):
    """The best path among all, each matched with the gold edits in every way."""

    def agreeing(edits):
        """Size of the longest run of edits that is a run of gold edits, both in order."""
        table = [[0] * (len(gold) + 1) for _ in range(len(edits) + 1)]
        for i, j in itertools.product(range(len(edits)), range(len(gold))):
            start, end, text, _ = edits[i]
            same = (start, end) == gold[j][:2] and text in gold[j].corrections
            table[i + 1][j + 1] = max(table[i][j + 1], table[i + 1][j], table[i][j] + same)
        return table[-1][-1]

    best = 0
    for path in all_paths(lattice, (0, 0), (len(source), len(output))):
        edits = [
            (node[0], arc.to[0], " ".join(output[node[1] : arc.to[1]]), arc.units)
            for node, arc in path
            if arc.is_edit
        ]
        best = max(best, agreeing(edits))
    return best


@settings(max_examples=150)
@given(st.lists(word, max_size=4), st.lists(word, max_size=4), st.data())
def test_no_path_agrees_more(source, output, data):
    spans = st.tuples(st.integers(0, len(source)), st.integers(0, len(source))).map(sorted)
    texts = st.lists(st.lists(word, max_size=2).map(" ".join), min_size=1, max_size=2).map(tuple)
    made = data.draw(st.lists(st.tuples(spans, texts), max_size=3))
    gold = sorted((Edit(*span, text) for span, text in made), key=lambda edit: edit[:2])
    lattice = arcs(source, output)
    counts = match(output, gold, lattice)
    assert counts.correct == by_hand(source, output, gold, lattice)
    assert counts.correct <= min(counts.proposed, counts.gold) and counts.gold == len(gold)
    assert (counts.proposed == 0) == (source == output)


def test_another_number_of_outputs_is_refused():
    with pytest.raises(ValueError, match="2 outputs for 3 sentences"):
        score(SYSTEM[:2], parse(OFFICIAL))


@pytest.mark.parametrize(
    "text, why",
    [
        ("A 0 1|||T|||x|||R|||-|||0\n", "line 1: an A line before"),
        ("S a\nA 0 2|||T|||x|||R|||-|||0\n", "line 2: span 0 2 is outside"),
        ("S a\nA 0 1|||T|||x\n", "line 2: expected 'A start end"),
        ("S a\nB\n", "line 2: expected 'S ...' or 'A ...'"),
    ],
)
def test_a_damaged_file_is_named(text, why):
    with pytest.raises(ValueError, match=f"gold.m2, {why}"):
        parse(text, "gold.m2")


ONE = "S a b\nA {}|||R|||-|||0\n"


@pytest.mark.parametrize(
    "text, edits",
    [
        ("S a  b\r\nA 1 2|||T|||x  y||-NONE-|||R|||-|||3\nA 0 0|||T|||z|||R|||-|||3\n",
         {3: (Edit(0, 0, ("z",)), Edit(1, 2, ("x y", "")))}),
        (ONE.format("0 1|||T|||||-NONE- x|| -NONE- "), {0: (Edit(0, 1, ("", "-NONE- x", "")),)}),
        # In the order of their spans; at one place, in that of the file.
        (ONE.format("0 2|||T|||x") + "A 0 1|||T|||y|||R|||-|||0\n",
         {0: (Edit(0, 1, ("y",)), Edit(0, 2, ("x",)))}),
        (ONE.format("0 0|||T|||z") + "A 0 0|||T|||b|||R|||-|||0\n",
         {0: (Edit(0, 0, ("z",)), Edit(0, 0, ("b",)))}),
        *((ONE.format(f"{nothing}|||x"), {0: ()})
          for nothing in ("0 1|||noop", "-1 -1|||T", "-1 1|||T", "0 -1|||T")),
        ("S a b\n\n", {0: ()}),
    ],
)  # fmt: skip
def test_the_format(text, edits):
    assert parse(text) == [Sentence(("a", "b"), edits)]


def test_only_a_line_feed_ends_a_line(tmp_path):
    path = tmp_path / "gold.m2"
    path.write_bytes("S a\u2028b\x0bc\rd\r\nA 0 1|||T|||x|||R|||-|||0\n\nS d".encode())
    # Words are split at any blank, these included.
    edits = {0: (Edit(0, 1, ("x",)),)}
    assert read(str(path)) == [Sentence(("a", "b", "c", "d"), edits), Sentence(("d",), {0: ()})]
    path.write_bytes(b"S caf\xe9\n")
    with pytest.raises(ValueError, match="gold.m2: is not UTF-8; convert it"):
        read(str(path))
