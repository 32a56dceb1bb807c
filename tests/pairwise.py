"""Tables of which the gate runs half, and nightly runs all."""

import itertools

import pytest


def half(*axes):
    """Every combination; in the gate one of two, so that any two values of two axes still meet."""
    places = itertools.product(*(range(len(axis)) for axis in axes))
    night = [[pytest.mark.slow] * (sum(place) % 2) for place in places]
    cells = itertools.product(*axes)
    return [pytest.param(*cell, marks=marks) for cell, marks in zip(cells, night)]
