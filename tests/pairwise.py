"""Tables of which the gate runs half, and nightly runs all."""

import itertools

import pytest


def half(*axes):
    """Every combination; in the gate one of two, so that any two values of two axes still meet."""
    for place in itertools.product(*(range(len(axis)) for axis in axes)):
        cell = [axis[at] for axis, at in zip(axes, place)]
        yield pytest.param(*cell, marks=[pytest.mark.slow] * (sum(place) % 2))
