"""Layers of a deep model for a shallower one."""

import pytest

from fairseq_specdec.training.layers import decoder_layers, evenly_spaced, growth_plan


@pytest.mark.parametrize(
    "keep, total, single, layers",
    [
        (2, 12, 0, [0, 11]), (1, 6, 0, [0]), (1, 6, 5, [5]), (3, 6, 0, [0, 2, 5]),
        (6, 6, 0, list(range(6))), (2, 2, 1, [0, 1]), (2, 6, 5, [0, 5]),
    ],
)  # fmt: skip
def test_layers_are_taken_evenly_from_the_first_to_the_last(keep, total, single, layers):
    assert evenly_spaced(keep, total, single) == layers


def test_layer_plans():
    assert growth_plan(2, 4) == [(0, True), (0, False), (1, True), (1, False)]
    assert [origin for origin, is_copy in growth_plan(6, 12) if is_copy] == list(range(6))
    assert [origin for origin, is_copy in growth_plan(5, 7) if is_copy] == list(range(5))
    assert growth_plan(6, 3) == [(0, True), (2, True), (5, True)]


def test_decoder_layers_are_chosen_and_checked():
    assert decoder_layers(None, 6, 2) == [0, 5] and decoder_layers(None, 6, 1) == [5]
    assert decoder_layers("[3,3]", 6, 2) == [3, 3]
    for asked in ("0", "0,6", "0,-1", "0,x"):
        with pytest.raises(ValueError, match=f"--init-decoder-layers {asked}: .* 2 .* 0 to 5"):
            decoder_layers(asked, 6, 2)
    with pytest.raises(ValueError, match="--decoder-layers 1"):
        decoder_layers(None, 1, 2)
