"""What ``lookup`` drafts, against a slow search."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_hypotheses import open_drafter, rows_of

from fairseq_specdec.drafting import LookupDrafter

PAD, EOS = 1, 2


def slow(source, steps, most, limit):
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


def open_session(sources, left=True, **settings):
    width = max(map(len, sources))
    pads = [[PAD] * (width - len(source)) for source in sources]
    rows = [pad + row if left else row + pad for pad, row in zip(pads, sources)]
    drafter = LookupDrafter(PAD, EOS, **{"block_size": 32, **settings})
    return open_drafter(drafter, {"src_tokens": torch.tensor(rows)}, 50, verifier=object())


def propose(session, outputs, budget=None, origin=None):
    draft = session.propose(rows_of(outputs, 50, origin), budget)
    return [t[:n] for t, n in zip(draft.tokens.tolist(), draft.sizes.tolist())]


words = st.lists(st.integers(4, 7), max_size=12)
grown = st.lists(st.lists(st.integers(4, 7), min_size=1, max_size=5), max_size=6)


@given(
    st.lists(st.tuples(words, grown), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2, 3, 5, None]),
    st.sampled_from([1, 2, 5, 32]),
)
def test_equals_a_slow_search(rows, left, reads_source, limit, most):
    sources = [[*source, EOS] for source, _ in rows]
    session = open_session(
        sources, left, block_size=most, reads_source=reads_source, max_suffix=limit
    )
    turns = min(len(steps) for _, steps in rows)
    outputs = [[sum(steps[:turn], []) for _, steps in rows] for turn in range(turns + 1)]
    proposed = [propose(session, output) for output in outputs]
    wanted = [
        slow(source if reads_source else None, steps[:turns], most, limit)
        for source, (_, steps) in zip(sources, rows)
    ]
    assert [list(row) for row in zip(*proposed)] == wanted


def test_rows_that_stay_keep_their_text():
    session = open_session([[4, 5, 6, EOS], [9, EOS], [10, 11, 4, 11, 13, EOS]])
    propose(session, [[], [], []])
    assert [session.likely_copied(row) for row in (0, 1)] == [[4, 5, 6], [9]]
    assert propose(session, [[5], [10, 11]], origin=[0, 2]) == [[6, EOS], [4, 11, 13, EOS]]
    assert propose(session, [[5, 6], [10, 11, 4, 11]], origin=[0, 2]) == [[EOS], [13, EOS]]


def test_it_drafts_for_beams_and_runs_no_model():
    drafter = LookupDrafter(PAD, EOS, 4)
    assert drafter.for_beams is True and drafter.runs_model is False and drafter.block_size == 4
