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
    rows.grow(torch.tensor(lengths), lengths)
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
