"""What a beam search drafts: copies of the source, what followed a like prefix."""

import numpy as np
import pytest

from fairseq_specdec.decoding.beam.lookahead import (
    NOTHING,
    Lookahead,
    Reach,
    reach_of_budget,
    reach_with_torch,
)
from fairseq_specdec.decoding.beam.replay import BeamRules, Sentence

EOS, START = 2, 0
FAR = Reach(20, 20)


def tokens_of(node):
    return [one.token for one in node.path()]


def paths(nodes):
    return [tokens_of(node) for node in nodes]


def distribution(*pairs):
    """(log-probabilities, tokens) of (token, log-probability)."""
    return np.float32([value for _, value in pairs]), np.array([token for token, _ in pairs])


def give(node, *pairs):
    node.best = distribution(*pairs)
    return node


def begun(*tokens, beam=2, max_len=30, low=-9.0):
    """A sentence whose best hypothesis has these tokens and is not scored; the second one, where
    there are tokens, is ``low`` below it and ends with token 99."""
    sentence = Sentence(BeamRules(beam, EOS, max_len), START)
    node = sentence.tree.root
    for at, token in enumerate(tokens):
        rest = [(99, low)] if at == len(tokens) - 1 else []
        give(node, (token, -0.1), *rest)
        sentence.advance()
        node = sentence.live[0]
    return sentence


def drafted(source, tokens, reach=FAR, **more):
    """The longest draft after some tokens, where two hypotheses follow a copy of the source."""
    sentence = begun(*tokens, **more)
    nodes = Lookahead(source, reach).draft(sentence)
    waiting = sentence.waiting()
    assert nodes[: len(waiting)] == waiting
    after = [one[len(tokens) :] for one in paths(nodes) if one[: len(tokens)] == list(tokens)]
    return max(after, key=len)


@pytest.mark.parametrize(
    "source, tokens, copied",
    [
        ([10, 11, 12], [], [10, 11, 12]),  # from the beginning
        ([10, 11, 12, 13], [10, 11], [12, 13]),
        ([10, 11, 12, 13], [10, 50, 12], [13]),  # one token was exchanged
        ([10, 11, 12, 13, 14], [10, 50, 51, 12, 13], [14]),
        # Two places end the same: the one nearest to the output's own length.
        ([7, 20, 8, 9, 7, 21, 5], [50, 51, 52, 7], [21, 5]),
        ([7, 20, 8, 9, 6, 5, 7, 21], [7], [20, 8, 9, 6, 5, 7, 21]),
        ([7, 20, 7, 21], [50, 7], [20, 7]),  # of two as near the first
        # A longer equal end is worth more than a near one.
        ([3, 7, 20, 4, 4, 4, 5, 7, 21], [50, 51, 50, 51, 50, 51, 3, 7], [20, 4, 4, 4, 5, 7, 21]),
        ([6, 7, 30, 5, 7, 31], [5, 7], [31]),
        # No more than the last four tokens are compared.
        ([9, 1, 1, 1, 1, 8, 1, 1, 1, 1, 7], [50, 1, 1, 1, 1], [8]),
        # Nothing is alike: the place of the same number.
        ([10, 11, 12, 13], [50, 51], [12, 13]),
        ([10], [50, 51, 52], [10]),
        ([10, 11], [10, 11], [11]),  # at the end of the source: the last place
        ([], [5], []),
    ],
    ids=str,
)
def test_the_source_is_copied_from_where_it_is_most_alike(source, tokens, copied):
    assert drafted(source, tokens)[: len(copied) or None] == copied


def test_steps_prefixes_and_length_are_limited():
    source = list(range(10, 30))
    for steps in (0, 1, 3):
        assert drafted(source, [], Reach(steps, 20)) == source[:steps]
    # Beam 2: the root, and a prefix a step; those of a step that is too much are left out.
    for beams, count in ((1, 1), (2, 3), (3, 5)):
        assert drafted(source, [], Reach(20, beams)) == source[:count]
    for max_len in (1, 4):
        assert drafted(source, [], max_len=max_len) == source[:max_len]
    assert drafted(source, [10, 11], max_len=4) == [12, 13]


def test_the_longest_like_end_is_asked_and_of_equals_the_nearest():
    look = Lookahead([], Reach(1, 9))
    prefixes = {(5, 7): 20, (6, 7): 21, (1, 2, 3, 6, 7): 22, (3, 6, 7): 23, (9,): 24, (1, 1, 9): 25}
    prefixes[9, 9, 5, 2, 3, 6, 7] = 26
    sentence = Sentence(BeamRules(2, EOS, 30), START)
    for tokens, word in prefixes.items():
        node = sentence.tree.root
        for token in tokens:
            node = node.child(token)
        look.learn([give(node, (word, -0.1))])

    def next_of(*tokens):
        sentence.live = [sentence.tree.root]
        for token in tokens:
            sentence.live = [sentence.live[0].child(token)]
        return [one[-1] for one in paths(look.draft(sentence)[1:])]

    assert next_of(8, 5, 7) == [20]
    assert next_of(8, 6, 7) == [23] and next_of(8, 8, 6, 7) == [22]  # three end with 6 7
    assert next_of(4, 4, 3, 6, 7) == [22] and next_of(4, 3, 6, 7) == [22]
    assert next_of(5, 2, 3, 6, 7) == [22]  # only the last four tokens are compared
    assert next_of(7) == [20]  # of equally near ones the first
    assert next_of(4, 4, 7) == [23]  # one token alike
    assert next_of(8, 8, 8, 9) == [25] and next_of(8, 9) == [24]
    assert next_of(8, 4) == []


def test_what_has_ended_takes_the_room_of_others():
    sentence = begun(10)
    look = Lookahead([10, 11, 12, 13], FAR)
    likely_end = [(EOS, -0.1), (11, -0.2), (12, -0.3)]
    give(sentence.live[0], *likely_end)
    # One ends, one goes on; it is followed, as the second place is not filled yet.
    assert [10, 11] in paths(look.draft(sentence))
    sentence.ended = [object()]
    assert look.draft(sentence) == sentence.waiting()
    sentence.ended = []
    give(sentence.live[0], (11, -0.1), (12, -0.2), (EOS, -0.3))  # </s> is third of two
    sentence.ended = [object()]
    assert [10, 11] in paths(look.draft(sentence))


def test_how_far_to_look():
    """The more sentences, the fewer prefixes of each; a limit of prefixes in vain is kept."""
    assert NOTHING == (0, 0, 0.0, 0) == Reach(0, 0)
    reaches = [reach_with_torch(rows, False) for rows in (1, 2, 5, 20, 21)]
    assert reaches == sorted(reaches, key=lambda one: -one.beams) and reaches[-1] == NOTHING
    assert all(one.steps == reaches[0].steps and one.beams >= 1 for one in reaches[:-1])
    assert reaches[0].min_copy_rate > 0
    assert reach_with_torch(1, True) == reach_with_torch(1, False)
    assert reach_with_torch(2, True) == NOTHING
    for vain, rows, beam in ((20, 1, 5), (20, 4, 5), (19, 4, 5), (60, 2, 3)):
        assert reach_of_budget(vain, rows, beam).beams == 1 + vain // (rows * beam)
    assert reach_of_budget(0, 3, 5).beams > reach_of_budget(60, 1, 5).beams
