"""What a beam search tells a drafter that forecasts: prefixes, and the states behind them."""

import torch
from toy_translation import EOS

from fairseq_specdec.decoding.beam import forecasts
from fairseq_specdec.decoding.beam.lookahead import Reach
from fairseq_specdec.decoding.beam.replay import BeamRules, Sentence
from fairseq_specdec.drafting import DraftSession, Forecast


class Answers(DraftSession):
    """Writes down what it is asked, and gives the answers in their order."""

    def __init__(self, *answers):
        self.answers, self.asked, self.selected = list(answers), [], []

    def forecast(self, hypotheses, kept, hidden_states, most, count):
        rows = [
            row[: length + 1].tolist() for row, length in zip(hypotheses.tokens, hypotheses.lengths)
        ]
        states = hidden_states and (hidden_states[0].tolist(), hidden_states[1].tolist())
        self.asked.append((rows, kept, states, most, count))
        return self.answers.pop(0)

    def select(self, rows, rows_cpu):
        self.selected.append((rows.tolist(), rows_cpu))


class Recorder:
    """A sentence's look-ahead that writes down what it is given."""

    reach = Reach(3, 9)

    def __init__(self):
        self.calls = []

    def set_forecast(self, depth, log_probs, tokens):
        self.calls.append((depth, log_probs.tolist(), tokens.tolist()))


def sentence_of(*tokens):
    """A sentence whose best hypothesis has these tokens, in slots 1, 2, ... after the root's."""
    sentence = Sentence(BeamRules(2, EOS, 9), EOS)
    node = sentence.tree.root
    sentence.tree.place([node])
    for token in tokens:
        node = node.child(token)
        sentence.tree.place([node])
    sentence.live = [node, sentence.tree.root.child(99)]
    return sentence


def answer(rows):
    """[rows, 2, 2], numbers that tell rows and steps apart."""
    tokens = torch.arange(4 * rows).view(rows, 2, 2)
    return Forecast(-tokens.float(), tokens)


LIKE = torch.zeros(3, 1)


def test_a_drafter_is_asked_after_the_best_hypotheses_and_its_answer_is_passed_on():
    drafts, looks = (Answers(answer(3), None, answer(3)), [Recorder(), Recorder(), Recorder()])
    made = forecasts.Forecasts(drafts, EOS, False, LIKE)
    made.update([sentence_of(), sentence_of(5, 6), sentence_of(7)], looks)
    assert drafts.asked == [([[EOS], [EOS, 5, 6], [EOS, 7]], [0, 0, 0], None, 3, 4)]
    assert [one.calls for one in looks] == [
        [(0, [[0.0, -1.0], [-2.0, -3.0]], [[0, 1], [2, 3]])],
        [(2, [[-4.0, -5.0], [-6.0, -7.0]], [[4, 5], [6, 7]])],
        [(1, [[-8.0, -9.0], [-10.0, -11.0]], [[8, 9], [10, 11]])],
    ]
    # Where there is no answer, the drafter has read nothing.
    made.update([sentence_of(5), sentence_of(5, 6, 7), sentence_of(7)], looks)
    assert [len(one.calls) for one in looks] == [1, 1, 1]
    made.update([sentence_of(5), sentence_of(5, 6), sentence_of(8, 7)], looks)
    assert [len(one.calls) for one in looks] == [2, 2, 2]


def test_what_is_kept_is_what_the_drafter_has_read():
    drafts, looks = (Answers(*[answer(3)] * 3, answer(2)), [Recorder(), Recorder(), Recorder()])
    made = forecasts.Forecasts(drafts, EOS, False, LIKE)
    first, second, third = sentence_of(5, 6), sentence_of(7), sentence_of()
    made.update([first, second, third], looks)
    best, root = first.live[0], first.tree.root
    first.live = [best.child(8)]
    second.live = [second.tree.root.child(9)]
    third.live = [third.tree.root.child(9)]
    made.update([first, second, third], looks)
    assert drafts.asked[1][1] == [2, 0, 0]
    first.live = [best.parent.child(4).child(4)]
    second.live = [second.live[0].child(5)]
    made.update([first, second, third], looks)
    assert drafts.asked[2][1] == [1, 1, 1] and root.children
    made.select(torch.tensor([0, 2]), [0, 2])
    assert drafts.selected == [([0, 2], [0, 2])]
    first.live, third.live = [first.live[0].child(6)], [third.live[0].child(6)]
    made.update([first, third], [looks[0], looks[2]])
    assert drafts.asked[3][1] == [3, 1]


def test_states_lie_by_slots_and_those_of_the_tokens_before_are_given():
    drafts, looks = (Answers(answer(3), answer(3), answer(2)), [Recorder(), Recorder(), Recorder()])
    made = forecasts.Forecasts(drafts, EOS, True, LIKE)
    made.update([sentence_of(), sentence_of(), sentence_of()], looks)
    assert drafts.asked[0][2] is None  # nothing was read yet
    states = torch.arange(3 * 2 * 2.0).view(3, 2, 2)
    made.learn(torch.tensor([[0, 1], [1, 0], [0, 1]]), 2, states)
    made.update([sentence_of(5, 6), sentence_of(7), sentence_of(8)], looks)
    # Slot 0 is the root's, which predicts the first token.
    assert drafts.asked[1][2] == (
        [[[0.0, 1.0], [2.0, 3.0]], [[6.0, 7.0], [6.0, 7.0]], [[8.0, 9.0], [8.0, 9.0]]],
        [2, 1, 1],
    )
    # Far slots make room; what was there stays.
    made.learn(torch.tensor([[9], [9], [9]]), 10, torch.full((3, 1, 2), 50.0))
    made.select(torch.tensor([1, 2]), [1, 2])
    made.update([sentence_of(9, 9), sentence_of(9)], looks[1:])
    read, sizes = drafts.asked[2][2]
    assert read[0] == [[6.0, 7.0], [4.0, 5.0]] and sizes == [2, 1]


def test_states_may_have_more_numbers_than_there_are_slots():
    made = forecasts.Forecasts(Answers(answer(3)), EOS, True, LIKE)
    for upto in (2, 10):
        made.learn(torch.full((3, 1), upto - 1), upto, torch.full((3, 1, 20), float(upto)))
    made.update([sentence_of(5), sentence_of(5), sentence_of(*range(5, 15))], [Recorder()] * 3)
    states = made.drafts.asked[0][2][0][2]
    assert [row[19] for row in states] == [0, 2, 0, 0, 0, 0, 0, 0, 0, 10]
