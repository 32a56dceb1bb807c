"""Dictionaries alone, where fairseq builds a model for a task."""

from __future__ import annotations

from fairseq.data import Dictionary


class Dictionaries:
    """As much of a task as building a model takes.

    Args:
        source, target: may be the same object, which shared embeddings need.
    """

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self.source_dictionary = self.src_dict = source
        self.target_dictionary = self.tgt_dict = target


def placeholder(size: int) -> Dictionary:
    """A dictionary of ``size`` symbols whose names mean nothing, fairseq's own included."""
    made = Dictionary()
    for number in range(size - len(made)):
        made.add_symbol(f"symbol{number}")
    return made
