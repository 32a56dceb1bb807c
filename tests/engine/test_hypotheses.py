"""The live hypotheses of a batch: what is written where, room for more, and rows that leave."""

import torch

from fairseq_specdec.engine.hypotheses import Hypotheses

PAD, START = 1, 2
LIKE = torch.zeros(1, dtype=torch.long)


def grown(lengths, columns=6):
    hypotheses = Hypotheses(len(lengths), columns, START, PAD, LIKE)
    hypotheses.lengths, hypotheses.lengths_cpu = torch.tensor(lengths), list(lengths)
    return hypotheses


def test_begins_with_the_start_symbol_and_padding():
    hypotheses = Hypotheses(2, 4, START, PAD, LIKE)
    assert hypotheses.tokens.tolist() == [[START, PAD, PAD, PAD]] * 2
    assert hypotheses.tokens.dtype == torch.long and hypotheses.scores.dtype == torch.float32
    assert hypotheses.scores.tolist() == [[0.0] * 4] * 2
    assert hypotheses.lengths.tolist() == hypotheses.lengths_cpu == [0, 0]
    assert hypotheses.lengths.dtype == torch.long and hypotheses.last().tolist() == [[START]] * 2
    there = Hypotheses(2, 4, START, PAD, LIKE.to("meta"))
    assert {x.device.type for x in (there.tokens, there.scores, there.lengths)} == {"meta"}


def test_lengths_of_the_rows():
    uneven, even = grown([3, 1, 2]), grown([2, 2])
    assert (uneven.shortest, uneven.longest, uneven.even) == (1, 3, False)
    assert (even.shortest, even.longest, even.even) == (2, 2, True)


def test_room_is_added_after_the_longest_row_and_nothing_is_lost():
    hypotheses = grown([2, 3])
    hypotheses.write(torch.tensor([[1], [3]]), torch.tensor([[7], [8]]))
    tokens, scores = hypotheses.tokens, hypotheses.scores
    hypotheses.reserve(2)  # start symbol, three tokens, two more
    assert hypotheses.tokens is tokens and hypotheses.scores is scores
    hypotheses.reserve(3)
    assert hypotheses.tokens.size(1) == hypotheses.scores.size(1) == 7
    hypotheses.reserve(5)
    assert hypotheses.tokens.shape == hypotheses.scores.shape == (2, 9)
    assert hypotheses.tokens.tolist() == [[START, 7] + [PAD] * 7, [START, PAD, PAD, 8] + [PAD] * 5]
    assert not hypotheses.scores.any()


def test_hypotheses_that_are_there_already():
    tokens = torch.arange(8).view(2, 4)
    hypotheses = Hypotheses.of(tokens, [3, 1])
    assert (
        hypotheses.tokens is tokens
        and hypotheses.lengths_cpu == hypotheses.lengths.tolist() == [3, 1]
    )
    assert hypotheses.lengths.dtype == torch.long and hypotheses.last().tolist() == [[3], [5]]
    assert hypotheses.scores.shape == (2, 4) and not hypotheses.scores.any()
    elsewhere = Hypotheses.of(tokens.to("meta"), [3, 1])
    assert elsewhere.lengths.device.type == elsewhere.scores.device.type == "meta"


def test_kept_rows_keep_what_is_theirs():
    hypotheses = grown([1, 2, 3])
    hypotheses.write(torch.tensor([[1], [1], [1]]), torch.tensor([[5], [6], [7]]))
    hypotheses.write_scores(torch.tensor([[0], [0], [0]]), torch.tensor([[-1.0], [-2.0], [-3.0]]))
    hypotheses.select(torch.tensor([0, 2]), [0, 2])
    assert hypotheses.tokens[:, 1].tolist() == [5, 7] and hypotheses.scores[:, 0].tolist() == [
        -1,
        -3,
    ]
    assert hypotheses.lengths.tolist() == hypotheses.lengths_cpu == [1, 3]
