"""What a trace says of a pass of a beam search."""

import pytest

from fairseq_specdec.decoding.beam.observed import BeamPass, DraftedPrefix, LiveHypothesis

LIVE = [([5, 6], True, True), ([5, 7], False, True)]


@pytest.mark.parametrize("draft, ended, live, expected", [
    # The longest prefixes hold those before them.
    (
        [([5, 6], True), ([5, 6, 7], True), ([5, 6, 8], False), ([5, 6, 8, 9], False)], [], LIVE,
        [([5, 6, 7], 1, 2), ([5, 6, 8, 9], 1, 1)],
    ),
    # Tokens before the drafted ones are known.
    ([([5, 6, 7], True)], [], LIVE, [([5, 6, 7], 2, 1)]),
    ([], [], LIVE, []),
    # What leads to an ended hypothesis is kept.
    ([([5], False), ([5, 6], False), ([5, 6, 7], False)], [[5, 6]], LIVE, [([5, 6, 7], 0, 2)]),
    ([([5], False), ([5, 6], False)], [[4, 5], [4, 5, 6]], LIVE, [([5, 6], 0, 0)]),
    # Only that is where the sentence is done.
    ([([5], True), ([5, 6], True)], [[5]], [], [([5, 6], 0, 1)]),
    ([([5], True), ([5, 6], True)], [], [], [([5, 6], 0, 0)]),
])  # fmt: skip
def test_drafts_and_what_became_of_them(draft, ended, live, expected):
    scored = [(tokens, True, kept) for tokens, kept in draft]
    hypotheses = [LiveHypothesis(*one) for one in [([5, 6], False), ([5, 7], True)][: len(live)]]
    drafts = [DraftedPrefix(*one) for one in expected]
    seen = BeamPass.of([2, 7, 4, 3], live, scored, ended)
    assert seen == BeamPass(2, 7, 4, 3, hypotheses, drafts)
