"""Drafts of tokens that are there already: the source (Ge et al. 2022, Algorithm 1), or what
followed the last tokens where they occurred before."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_hypotheses import open_drafter, rows_of

from fairseq_specdec.drafting import InputCopyDrafter, LookupDrafter
from fairseq_specdec.drafting.copying import MAX_SUFFIX, unique_place

PAD, EOS = 1, 2


def slow(source, output, max_suffix=MAX_SUFFIX):
    """Draft for one sentence: source with its </s>, output without start symbol."""
    x, o = [EOS] + source, [EOS] + output
    for size in range(1, min(max_suffix or len(o), len(o)) + 1):
        places = [
            i + size for i in range(len(x) - size) if x[i : i + size] == o[-size:] and i + size
        ]
        if len(places) == 1:
            return x[places[0] :]
    return []


def open_session(drafter, rows):
    net_input = {"src_tokens": torch.tensor(rows)}
    return open_drafter(drafter, net_input, 50, verifier=torch.nn.Identity())


def padded(sources, left=True):
    width = max(map(len, sources))
    pads = [[PAD] * (width - len(source)) for source in sources]
    return [pad + row if left else row + pad for pad, row in zip(pads, sources)]


def drafted(session, outputs, origin=None):
    draft = session.propose(rows_of(outputs, 50, origin))
    return [t[:n] for t, n in zip(draft.tokens.tolist(), draft.sizes.tolist())]


def propose(drafter, sources, outputs, left=True):
    return drafted(open_session(drafter, padded(sources, left)), outputs)


words = st.lists(st.integers(4, 9), min_size=0, max_size=12)


few_words = st.lists(st.integers(4, 5), min_size=0, max_size=12)  # the same ones, often
limits = st.sampled_from([MAX_SUFFIX, 1, 2, 5, None])


@given(
    st.lists(st.one_of(st.tuples(words, words), st.tuples(few_words, few_words)), min_size=1),
    st.booleans(),
    limits,
)
def test_equals_the_algorithm(pairs, left, limit):
    sources = [s + [EOS] for s, _ in pairs]
    outputs = [o for _, o in pairs]
    proposed = propose(InputCopyDrafter(PAD, EOS, max_suffix=limit), sources, outputs, left)
    assert proposed == [slow(s, o, limit) for s, o in zip(sources, outputs)]


@pytest.mark.parametrize("shared", [7, 8, 9, 16, 17, 40])
def test_long_repetitions_are_distinguished(shared):
    """The longer part is compared, the more often: in steps of 8, 16, 32 tokens."""
    repeated = [4 + i % 5 for i in range(shared)]
    source = [8, *repeated, 5, 9, *repeated, 6, EOS]
    drafter = InputCopyDrafter(PAD, EOS, max_suffix=None)
    assert propose(drafter, [source, [7, EOS]], [[9, *repeated], [5]]) == [[6, EOS], []]
    limited = InputCopyDrafter(PAD, EOS, max_suffix=shared)
    assert propose(limited, [source], [[9, *repeated]]) == [[]]


@pytest.mark.timeout(20)
def test_a_long_text_of_one_word():
    """In linear time: comparing each place with all of the output takes 100 times as long."""
    text = [EOS] + [5] * 50_000
    assert unique_place([*text, EOS], text, None) == len(text)
    assert unique_place([*text, EOS], text[2:], None) is None


def test_rows_that_stay_keep_their_source():
    source = [[4, 5, 6, 7, 8, EOS], [9, EOS, PAD, PAD, PAD, PAD], [10, 11, 12, 13, EOS, PAD]]
    session = open_session(InputCopyDrafter(PAD, EOS), source)
    session.propose(rows_of([[], [], []]))
    assert [session.likely_copied(row) for row in (0, 1)] == [[4, 5, 6, 7, 8], [9]]
    assert drafted(session, [[4, 99, 6], [10, 11]], [0, 2]) == [[7, 8, EOS], [12, 13, EOS]]


def slow_lookup(source, steps, most, limit):
    """The drafts of an output that grows by these tokens; ``source`` with </s>, or None."""
    head = [] if source is None else [EOS, *source]
    expected, output, drafts = 0, [], []
    for added in ([EOS], *steps):
        output += added
        expected += len(added)
        text = head + output
        ends = [*range(1, len(head)), *range(len(head) + 1, len(text))]
        longest = min(len(text), len(text) if limit is None else limit)
        for size in range(longest, 0, -1):
            places = [at for at in ends if at >= size and text[at - size : at] == text[-size:]]
            if places:
                expected = min(places, key=lambda at: (abs(at - expected), at))
                follows = text[expected : len(head)] or text[expected:] * most
                drafts.append(follows[:most])
                break
        else:
            drafts.append([])
    return drafts


some_words = st.lists(st.integers(4, 7), max_size=12)
grown = st.lists(st.lists(st.integers(4, 7), min_size=1, max_size=5), max_size=6)


@given(
    st.lists(st.tuples(some_words, grown), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2, 3, 5, None]),
    st.sampled_from([1, 2, 5, 32]),
)
def test_lookup_equals_a_slow_search(rows, left, reads_source, limit, most):
    sources = [[*source, EOS] for source, _ in rows]
    drafter = LookupDrafter(PAD, EOS, most, reads_source, limit)
    session = open_session(drafter, padded(sources, left))
    turns = min(len(steps) for _, steps in rows)
    outputs = [[sum(steps[:turn], []) for _, steps in rows] for turn in range(turns + 1)]
    proposed = [drafted(session, output) for output in outputs]
    wanted = [
        slow_lookup(source if reads_source else None, steps[:turns], most, limit)
        for source, (_, steps) in zip(sources, rows)
    ]
    assert [list(row) for row in zip(*proposed)] == wanted
