"""The live hypotheses of a batch: what is written where, room for more, and rows that leave."""

import torch

from fairseq_specdec.engine.hypotheses import Hypotheses

PAD, START = 1, 2
LIKE = torch.zeros(1, dtype=torch.long)


def grown(lengths, columns=6):
    found = Hypotheses(len(lengths), columns, START, PAD, LIKE)
    found.lengths, found.lengths_cpu = torch.tensor(lengths), list(lengths)
    return found


def test_begins_with_the_start_symbol_and_padding():
    found = Hypotheses(2, 4, START, PAD, LIKE)
    assert found.tokens.tolist() == [[START, PAD, PAD, PAD]] * 2
    assert found.tokens.dtype == torch.long and found.scores.dtype == torch.float32
    assert found.scores.tolist() == [[0.0] * 4] * 2
    assert found.lengths.tolist() == found.lengths_cpu == [0, 0]
    assert found.lengths.dtype == torch.long and found.last().tolist() == [[START]] * 2
    there = Hypotheses(2, 4, START, PAD, LIKE.to("meta"))
    assert {x.device.type for x in (there.tokens, there.scores, there.lengths)} == {"meta"}


def test_lengths_of_the_rows():
    uneven, even = grown([3, 1, 2]), grown([2, 2])
    assert (uneven.shortest, uneven.longest, uneven.even) == (1, 3, False)
    assert (even.shortest, even.longest, even.even) == (2, 2, True)


def test_room_is_added_after_the_longest_row_and_nothing_is_lost():
    found = grown([2, 3])
    found.write(torch.tensor([[1], [3]]), torch.tensor([[7], [8]]))
    tokens, scores = found.tokens, found.scores
    found.reserve(2)  # start symbol, three tokens, two more
    assert found.tokens is tokens and found.scores is scores
    found.reserve(3)
    assert found.tokens.size(1) == found.scores.size(1) == 7
    found.reserve(5)
    assert found.tokens.shape == found.scores.shape == (2, 9)
    assert found.tokens.tolist() == [[START, 7] + [PAD] * 7, [START, PAD, PAD, 8] + [PAD] * 5]
    assert not found.scores.any()


def test_hypotheses_that_are_there_already():
    tokens = torch.arange(8).view(2, 4)
    found = Hypotheses.of(tokens, [3, 1])
    assert found.tokens is tokens and found.lengths_cpu == found.lengths.tolist() == [3, 1]
    assert found.lengths.dtype == torch.long and found.last().tolist() == [[3], [5]]
    assert found.scores.shape == (2, 4) and not found.scores.any()
    elsewhere = Hypotheses.of(tokens.to("meta"), [3, 1])
    assert elsewhere.lengths.device.type == elsewhere.scores.device.type == "meta"


def test_kept_rows_keep_what_is_theirs():
    found = grown([1, 2, 3])
    found.write(torch.tensor([[1], [1], [1]]), torch.tensor([[5], [6], [7]]))
    found.write_scores(torch.tensor([[0], [0], [0]]), torch.tensor([[-1.0], [-2.0], [-3.0]]))
    found.select(torch.tensor([0, 2]), [0, 2])
    assert found.tokens[:, 1].tolist() == [5, 7] and found.scores[:, 0].tolist() == [-1, -3]
    assert found.lengths.tolist() == found.lengths_cpu == [1, 3]
