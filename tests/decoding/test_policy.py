import torch

from fairseq_specdec.decoding.policy import DecodingConstraints, LengthLimits
from fairseq_specdec.engine.scores import forbidden_by_ngrams
from fairseq_specdec.engine.state import Rows, causal_horizon

PAD, EOS, UNK = 1, 2, 3
NINE = LengthLimits(9, 9)


def policy(**changes):
    settings = {"min_len": 1, "unk_penalty": 0.0, "no_repeat_ngram_size": 0}
    return DecodingConstraints(PAD, UNK, EOS, **dict(settings, **changes))


def edits_of(rule, rows, width, limits, prefix):
    """For the last token of each row and a draft after it."""
    steps, listed = causal_horizon(rows.lengths, width), None
    if rule.reads_hypotheses:
        listed = forbidden_by_ngrams(rows.tokens, steps, rule.no_repeat_ngram_size)
    return rule.edits(steps, (rows.shortest, rows.longest + width - 1), limits, prefix, listed)


def rows_of(lengths):
    rows = Rows(len(lengths), 30, 0, PAD, torch.zeros(0))
    rows.advance(torch.tensor(lengths))
    rows.grow(lengths)
    return rows


def test_what_cannot_matter_is_left_out():
    """An edit costs every iteration; a block far from all limits has but the padding's."""
    prefix = torch.full((2, 3), 7)
    plain = policy(min_len=3)
    rows = rows_of([3, 5])
    nothing = (((PAD, float("-inf")),), EOS, None, None, None)
    assert edits_of(plain, rows, 4, NINE, prefix) == nothing
    # One token further, or one row behind, and they matter.
    edits = edits_of(plain, rows, 5, NINE, prefix)
    assert edits.forced.tolist() == [[-1] * 5, [-1] * 4 + [EOS]]
    assert edits.banned is None and edits.listed is None
    assert edits_of(plain, rows_of([2, 3]), 1, NINE, None).banned.tolist() == [[True], [False]]
    assert edits_of(plain, rows_of([2, 5]), 1, NINE, prefix).forced.tolist() == [[7], [-1]]
    begun = edits_of(policy(min_len=1), rows_of([2, 5]), 1, NINE, prefix)
    assert begun.banned is None and begun.forced is not None
    assert edits_of(policy(unk_penalty=2.0), rows, 1, NINE, None).everywhere[1:] == ((UNK, -2.0),)
    assert edits_of(policy(unk_penalty=-2.0), rows, 1, NINE, None).everywhere[1:] == ((UNK, 2.0),)
    blocked = edits_of(policy(no_repeat_ngram_size=1), rows, 1, NINE, prefix)
    assert blocked.listed is not None and blocked.forced is None


def slow_ngrams(tokens, size):
    """Tokens that would complete an n-gram seen before, by the definition."""
    seen = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
    context = tuple(tokens[len(tokens) - size + 1 :])
    return {gram[-1] for gram in seen if gram[:-1] == context} if len(tokens) >= size - 1 else set()


def test_ngrams_equal_the_definition():
    generator = torch.Generator().manual_seed(1)
    sequence = torch.randint(0, 4, (40, 12), generator=generator)
    for size in (1, 2, 3, 4):
        last = torch.randint(0, 10, (40, 1), generator=generator) + torch.arange(3)
        banned = forbidden_by_ngrams(sequence, last, size)
        found_any = False
        for row in range(40):
            for column in range(3):
                tokens = sequence[row, : int(last[row, column]) + 1].tolist()
                expected = slow_ngrams(tokens, size)
                found_any = found_any or bool(expected)
                assert set(banned[row, column].tolist()) - {-1} == expected
        assert found_any


def test_prefixes_are_the_first_draft():
    """Up to what stands after padding, and to the length limit."""
    prefix = torch.tensor([[5, 6, 7, PAD], [PAD, 8, 9, 9], [4, PAD, 6, PAD], [4, EOS, PAD, PAD]])
    draft = policy().forced_draft(prefix, LengthLimits(9, 9))
    assert draft.forced and draft.sizes.tolist() == [3, 0, 1, 2]
    assert draft.tokens.tolist() == prefix[:, :3].tolist()
    short = policy().forced_draft(prefix, LengthLimits(2, 2))
    assert short.sizes.tolist() == [2, 0, 1, 2] and short.width == 2
    for nothing in (prefix[1:2], torch.full((2, 3), PAD), prefix[:, :0]):
        assert policy().forced_draft(nothing, LengthLimits(9, 9)).width == 0
    assert policy().forced_draft(prefix, LengthLimits(0, 0)).width == 0
