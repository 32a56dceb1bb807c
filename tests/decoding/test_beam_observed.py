"""What a trace says of a pass of a beam search."""

from fairseq_specdec.decoding.beam.beams import EndedHypothesis, Prefix, Progress
from fairseq_specdec.decoding.beam.observed import BeamPass, DraftedPrefix, LiveHypothesis, observed

BEFORE = Progress(False, 3, 4, 10, 5, 2)
AFTER = Progress(False, 4, 6, 17, 9, 5)


class Told:
    """Searches that say what they were given, of sentence 1."""

    def __init__(self, live=(), draft=(), ended=()):
        self.parts = {"live": live, "draft": draft, "ended": ended}

    def live(self, row):
        assert row == 1
        return [Prefix(tokens, scored, True) for tokens, scored in self.parts["live"]]

    def draft(self, row):
        assert row == 1
        return [Prefix(tokens, True, kept) for tokens, kept in self.parts["draft"]]

    def ended(self, row):
        assert row == 1
        return [EndedHypothesis(tokens, [0.0]) for tokens in self.parts["ended"]]


def drafts(now=AFTER, **parts):
    return observed(Told(**parts), 1, BEFORE, now).draft


def test_counts_are_those_of_the_pass():
    seen = observed(Told(live=[([5, 6], True), ([5, 7], False)]), 1, BEFORE, AFTER)
    live = [LiveHypothesis([5, 6], False), LiveHypothesis([5, 7], True)]
    assert seen == BeamPass(2, 7, 4, 3, live, [])


def test_what_is_done_has_no_live_hypotheses():
    assert observed(Told(live=[([5], True)]), 1, BEFORE, AFTER._replace(done=True)).hypotheses == []


def test_the_longest_drafted_prefixes_hold_those_before_them():
    draft = [([5, 6], True), ([5, 6, 7], True), ([5, 6, 8], False), ([5, 6, 8, 9], False)]
    assert drafts(draft=draft) == [
        DraftedPrefix([5, 6, 7], 1, 2),
        DraftedPrefix([5, 6, 8, 9], 1, 1),
    ]
    # Tokens before the drafted ones are known.
    assert drafts(draft=[([5, 6, 7], True)]) == [DraftedPrefix([5, 6, 7], 2, 1)]
    assert drafts() == []


def test_what_leads_to_an_ended_hypothesis_is_kept():
    draft = [([5], False), ([5, 6], False), ([5, 6, 7], False)]
    assert drafts(draft=draft, ended=[[5, 6]]) == [DraftedPrefix([5, 6, 7], 0, 2)]
    assert drafts(draft=draft, ended=[[4, 5], [4, 5, 6]]) == [DraftedPrefix([5, 6, 7], 0, 0)]


def test_of_a_sentence_that_is_done_only_that_is_kept():
    done = AFTER._replace(done=True)
    draft = [([5], True), ([5, 6], True)]
    assert drafts(done, draft=draft, ended=[[5]]) == [DraftedPrefix([5, 6], 0, 1)]
    assert drafts(done, draft=draft) == [DraftedPrefix([5, 6], 0, 0)]
