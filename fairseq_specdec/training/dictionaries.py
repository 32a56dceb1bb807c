"""A stand-in for a task that has dictionaries only."""

from __future__ import annotations

from fairseq.data import Dictionary


class Dictionaries:
    """The part of a task that building a model needs."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self.source_dictionary = self.src_dict = source
        self.target_dictionary = self.tgt_dict = target


def placeholder(size: int) -> Dictionary:
    """A dictionary of ``size`` symbols whose names mean nothing, fairseq's own included."""
    made = Dictionary()
    for number in range(size - len(made)):
        made.add_symbol(f"symbol{number}")
    return made
