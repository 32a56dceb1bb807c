"""When a batch pays, and what is in it."""

import math

import pytest

from fairseq_specdec.serve.batching import choose, paying


@pytest.mark.parametrize(
    "column, widest, smallest",
    [
        (0.0, 16, 2),  # a further row costs nothing
        (0.6, 16, 2),  # 0.875 * 1.6 + 0.25 * 1 for 2: 1.21 times as many
        (0.8, 16, 8),
        (0.8, 7, math.inf),
        (1.0, 16, math.inf),  # as much as the first
    ],
)
def test_a_batch_pays_by_what_a_row_adds(column, widest, smallest):
    assert paying(lambda live: 1 + column * (live - 1), widest) == smallest


@pytest.mark.parametrize(
    "lengths, idle, widest, smallest, places",
    [
        ([5, 6], 0, 16, 3, [0]),
        ([5, 6], 0, 16, 2, [1, 0]),
        ([5, 9, 4, 6, 5], 0, 3, 2, [0, 4, 2]),
        ([5, 6, 7, 8], 1, 16, 2, [1, 0]),  # the other thread takes its share
        ([5, 6, 7], 2, 16, 2, [0]),
        ([5, 6, 7, 8], 0, 16, math.inf, [0]),
        ([5, *[9] * 7, 5, 5], 0, 2, 2, [1, 0]),  # what came much later waits
    ],
)
def test_the_oldest_is_decoded_with_those_of_nearest_length(
    lengths, idle, widest, smallest, places
):
    assert choose(lengths, idle, widest, smallest) == places
