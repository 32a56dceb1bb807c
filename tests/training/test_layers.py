"""Layers of a deep model for a shallower one."""

import pytest

from fairseq_specdec.training.layers import evenly_spaced


@pytest.mark.parametrize(
    "keep, total, single, layers",
    [
        (2, 12, 0, [0, 11]),
        (1, 6, 0, [0]),
        (1, 6, 5, [5]),
        (3, 6, 0, [0, 2, 5]),
        (6, 6, 0, list(range(6))),
        (2, 2, 1, [0, 1]),
        (2, 6, 5, [0, 5]),
    ],
)
def test_layers_are_taken_evenly_from_the_first_to_the_last(keep, total, single, layers):
    assert evenly_spaced(keep, total, single) == layers
