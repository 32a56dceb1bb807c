"""Re-alignment by suffix match: paper 000, Algorithm 1."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.drafters import InputCopyDrafter
from fairseq_specdec.drafters.input_copy import LONGEST_SUFFIX

PAD, EOS = 1, 2


def slow(source, output):
    """Draft for one sentence: source with its </s>, output without start symbol."""
    x, o = [EOS] + source, [EOS] + output
    for size in range(1, LONGEST_SUFFIX + 1):
        if size > len(o):
            break
        places = [
            i + size for i in range(len(x) - size) if x[i : i + size] == o[-size:] and i + size
        ]
        if len(places) == 1:
            return x[places[0] :]
    return []


def propose(drafter, sources, outputs, left=True):
    width = max(map(len, sources))
    pads = [[PAD] * (width - len(s)) for s in sources]
    rows = [p + s if left else s + p for p, s in zip(pads, sources)]
    drafter.start({"src_tokens": torch.tensor(rows)}, 50, {})
    lengths = [len(o) for o in outputs]
    tokens = torch.full((len(outputs), 40), PAD)
    tokens[:, 0] = EOS
    for row, output in enumerate(outputs):
        tokens[row, 1 : 1 + len(output)] = torch.tensor(output, dtype=torch.long)
    draft = drafter.propose(tokens, torch.tensor(lengths), lengths)
    return [t[:n] for t, n in zip(draft.tokens.tolist(), draft.lengths.tolist())]


words = st.lists(st.integers(4, 9), min_size=0, max_size=12)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=5), st.booleans())
def test_equals_the_algorithm(pairs, left):
    sources = [s + [EOS] for s, _ in pairs]
    outputs = [o for _, o in pairs]
    found = propose(InputCopyDrafter(PAD, EOS), sources, outputs, left)
    assert found == [slow(s, o) for s, o in zip(sources, outputs)]


def test_starts_with_the_whole_source():
    assert propose(InputCopyDrafter(PAD, EOS), [[5, 6, 5, EOS]], [[]]) == [[5, 6, 5, EOS]]


def test_an_ambiguous_word_waits_for_a_unique_suffix():
    drafter = InputCopyDrafter(PAD, EOS)
    assert propose(drafter, [[5, 6, 5, 7, EOS]], [[8, 5]]) == [[]]
    assert propose(drafter, [[5, 6, 5, 7, EOS]], [[6, 5]]) == [[7, EOS]]


def test_drafts_can_be_kept_short():
    assert propose(InputCopyDrafter(PAD, EOS, 2), [[5, 6, 7, EOS]], [[]]) == [[5, 6]]


def test_where_nothing_is_copied_nothing_is_verified():
    drafter = InputCopyDrafter(PAD, EOS)
    drafter.start({"src_tokens": torch.tensor([[7, 8, 7, EOS], [4, 5, 6, EOS]])}, 50, {})
    tokens = torch.tensor([[EOS, 9, PAD], [EOS, 4, 9]])
    assert drafter.propose(tokens, torch.tensor([1, 2]), [1, 2]).tokens.shape == (2, 0)
    tokens[1, 2] = 5
    assert drafter.propose(tokens, torch.tensor([1, 2]), [1, 2]).tokens.tolist()[1] == [6, EOS]


def iterations(source, output, **options):
    """Drafts made for a sentence, and how many tokens each iteration emitted."""
    drafter = InputCopyDrafter(PAD, EOS, **options)
    drafter.start({"src_tokens": torch.tensor([source])}, 50, {})
    tokens = torch.tensor([[EOS, *output]])
    made, emitted, have = [], [], 0
    while have < len(output):
        draft = drafter.propose(tokens, torch.tensor([have]), [have])
        (words,) = draft.tokens.tolist()
        words = words[: int(draft.lengths)]
        right = 0
        while right < len(words) and output[have + right : have + right + 1] == [words[right]]:
            right += 1
        made.append(words)
        emitted.append(min(right + 1, len(output) - have))
        have += emitted[-1]
    return made, emitted


# The word 4 stands twice, so that one of it does not tell where the output is.
LINE = [4, 5, 4, 6, 7, 4, 8, EOS]


def test_a_replaced_word_is_stepped_over():
    output = [4, 5, 9, 6, 7, 4, 8, EOS]
    _, emitted = iterations(LINE, output)
    assert emitted == [3, 1, 4]  # the paper's rule: 9 is nowhere, 6 is unique
    made, emitted = iterations(LINE, output, realign=True)
    assert emitted == [3, 5] and made[1] == [6, 7, 4, 8, EOS]


def test_deleted_words_are_skipped():
    output = [4, 5, 4, 4, 8, EOS]  # without 6 and 7
    _, emitted = iterations(LINE, output)
    assert emitted == [4, 1, 1]
    made, emitted = iterations(LINE, output, realign=True)
    assert emitted == [4, 2] and made[1] == [8, EOS]


def test_nothing_is_drafted_behind_the_source():
    made, emitted = iterations([4, EOS], [4, 9, 9, 9, 8, EOS], realign=True)
    assert sum(emitted) == 6 and made[-1] == []


@given(words, words)
def test_realigned_drafts_are_ends_of_the_source(source, output):
    source, output = [*source, EOS], [*output, EOS]
    paper, _ = iterations(source, output)
    drafts, emitted = iterations(source, output, realign=True)
    assert sum(emitted) == len(output)
    for draft in drafts:
        assert draft == source[len(source) - len(draft) :]
    if all(paper):  # nowhere at a loss
        assert drafts == paper
